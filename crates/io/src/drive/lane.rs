//! What a machine talks over.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::share::Share;
use crate::clock::Clock;
use crate::competition::Competition;
use crate::control::Stream;
use crate::seal::Key;
use crate::udp::Udp;

/// One socket, one stream and the keys between two machines.
#[derive(Debug)]
pub struct Lane {
    /// The socket, if datagrams pass at all.
    pub udp: Option<Udp>,
    /// Carries the machine's stream messages, and datagrams where UDP does not pass.
    pub stream: Stream,
    /// Further streams, on connections of their own; the machine knows them by the numbers that follow.
    pub more: Vec<Stream>,
    /// Marks every datagram and every frame of the machine: who had the lane before may have said more
    /// than was heard.
    pub connection: u64,
    /// Seals what leaves; without it datagrams are plain.
    pub seal: Option<Key>,
    /// Opens what comes.
    pub open: Option<Key>,
    /// The length of the protocol's datagram heads.
    pub head_len: usize,
    /// The time.
    pub clock: Clock,
    /// Receive bodies straight into the place where the next are expected ("scatter"), this many
    /// bytes each, rather than copying them there.
    pub scatter: Option<u32>,
    /// The rate that it has a part in; without one, its machine keeps its own.
    pub share: Option<Arc<Share>>,
    /// Looks out for those who want its thread's processor, if the machine is to hear of them.
    pub competition: Option<Competition>,
    /// What it has seen; others may look.
    pub counters: Arc<Counters>,
}

/// What a lane has seen.
#[derive(Debug, Default)]
pub struct Counters {
    /// Datagrams sent.
    pub sent: AtomicU64,
    /// Genuine datagrams received.
    pub received: AtomicU64,
    /// Datagrams of somebody else, or too short.
    pub foreign: AtomicU64,
    /// Datagrams that failed authentication.
    pub forged: AtomicU64,
    /// Receptions that the full receive buffer dropped (`SO_RXQ_OVFL`), at least one datagram each.
    pub buffer_drops: AtomicU64,
}
