//! Connections between two machines: socket, streams, keys and counters.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::share::Share;
use crate::control::Stream;
use crate::crypto::seal::Key;
use crate::host::clock::Clock;
use crate::host::competition::Competition;
use crate::net::udp::Udp;

/// Socket, streams and keys that connect two machines.
#[derive(Debug)]
pub struct Lane {
    /// UDP socket; `None` if datagrams do not pass.
    pub udp: Option<Udp>,
    /// Stream for messages, and for datagrams where UDP does not pass.
    pub stream: Stream,
    /// Further streams on connections of their own. Their numbers in the machine follow that of `stream`.
    pub more: Vec<Stream>,
    /// Identifier in each datagram and frame of the machine, which reveals late messages of an earlier machine.
    pub connection: u64,
    /// Key that seals outgoing datagrams; `None` for datagrams without encryption.
    pub seal: Option<Key>,
    /// Key that opens incoming datagrams.
    pub open: Option<Key>,
    /// Length of the protocol's datagram heads, in octets.
    pub head_len: usize,
    /// Clock that all times of the machine refer to.
    pub clock: Clock,
    /// Length in bytes of bodies to receive in their expected place ("scatter"); `None` to copy them from a buffer.
    pub scatter: Option<u32>,
    /// Rate that this lane shares with other lanes. With `None`, the machine sets its own rate.
    pub share: Option<Arc<Share>>,
    /// Monitor of the tasks that compete for the thread's processor, if the machine uses its measurements.
    pub competition: Option<Competition>,
    /// Counters of datagrams, readable by other threads.
    pub counters: Arc<Counters>,
}

/// Counters of a lane's datagrams.
#[derive(Debug, Default)]
pub struct Counters {
    /// Datagrams sent.
    pub sent: AtomicU64,
    /// Authentic datagrams received.
    pub received: AtomicU64,
    /// Datagrams of other connections, or too short.
    pub foreign: AtomicU64,
    /// Datagrams that failed authentication.
    pub forged: AtomicU64,
    /// Drops because of a full receive buffer (`SO_RXQ_OVFL`): receptions of at least one datagram each.
    pub buffer_drops: AtomicU64,
}
