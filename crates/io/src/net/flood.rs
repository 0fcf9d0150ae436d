//! Measurement of the upper limit of a path with trains of the largest size.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_base::{Head, Instant, Rate};

use crate::host::clock::{Clock, lower_timer_slack};
use crate::host::wait::{Watch, wait};
use crate::net::train::{CONNECTION_LEN, Train};
use crate::net::udp::{TRAIN_DATAGRAMS_MAX, Udp};

const HEAD_LEN: usize = 8;
/// Memory in bytes for bodies to read from or copy to, larger than the CPU's caches.
const RING_BYTES: usize = 64 << 20;
/// Time without datagrams after which a flood has ended.
const QUIET: Duration = Duration::from_millis(300);

/// Interval at which the receiver of a flood checks whether to continue.
const LOOK: Duration = Duration::from_millis(100);

/// Result of a flood at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloodReport {
    /// Octets of UDP payload.
    pub bytes: u64,
    /// Number of received datagrams.
    pub datagrams: u64,
    /// Time from the first reception to the last.
    pub time: Duration,
    /// Receptions dropped because of a full receive buffer.
    pub buffer_drops: u32,
}

/// Sends datagrams of `len` octets for `time`, at `rate` or as fast as the host can. Returns the number sent.
pub fn flood(
    udp: &Udp,
    connection: u64,
    len: usize,
    time: Duration,
    rate: Rate,
) -> io::Result<u64> {
    lower_timer_slack();
    let clock = Clock::start();
    let end = clock.now() + time;
    let body_len = len - CONNECTION_LEN - HEAD_LEN;
    let mut ring = vec![0_u8; RING_BYTES / body_len * body_len];
    let mut train = Train::new();
    let mut due = clock.now();
    let mut count = 0_u64;
    while clock.now() < end {
        for (index, bodies) in ring.chunks_mut(body_len * TRAIN_DATAGRAMS_MAX).enumerate() {
            for body in bodies.chunks_mut(body_len) {
                if !train.admits(HEAD_LEN, body_len, false) {
                    break;
                }
                train.push(connection, &Head::new(&count.to_be_bytes()), body, None);
                count += 1;
            }
            let sent = train.flush(udp)?;
            if rate != Rate::UNLIMITED {
                due += rate.time_for((sent * len) as u64);
                wait(clock, &mut [], due)?;
            }
            if index % 16 == 15 && clock.now() >= end {
                break;
            }
        }
    }
    Ok(count)
}

/// Receives a flood while `goes_on` returns true, until `begins_by` if none begins. With `copy`, copies each body.
pub fn absorb(
    udp: &Udp,
    connection: u64,
    copy: bool,
    (clock, begins_by): (Clock, Instant),
    goes_on: impl Fn(Instant) -> bool,
) -> io::Result<FloodReport> {
    let mut ring = vec![0_u8; if copy { RING_BYTES } else { 1 }];
    let mut buffer = vec![0; 1 << 16];
    let mut report = FloodReport::default();
    let mut first: Option<Instant> = None;
    let mut until = begins_by;
    let mut at = 0;
    let mut looks_at = clock.now();
    loop {
        let now = clock.now();
        if now >= looks_at {
            if !goes_on(now) {
                return Ok(report);
            }
            looks_at = now + LOOK;
        }
        let Some(received) = udp.receive_into(&mut buffer, &mut report.buffer_drops)? else {
            if clock.now() >= until {
                return Ok(report);
            }
            let until = until.min(looks_at);
            wait(clock, &mut [Watch::read(udp.as_raw_fd())], until)?;
            continue;
        };
        if buffer[..received.len].first_chunk() != Some(&connection.to_be_bytes()) {
            continue;
        }
        let now = clock.now();
        report.time = now.since(*first.get_or_insert(now));
        report.bytes += received.len as u64;
        report.datagrams += received.len.div_ceil(received.segment_len) as u64;
        until = now + QUIET;
        if copy {
            for datagram in buffer[..received.len].chunks(received.segment_len) {
                let body = &datagram[(CONNECTION_LEN + HEAD_LEN).min(datagram.len())..];
                if at + body.len() > ring.len() {
                    at = 0;
                }
                ring[at..at + body.len()].copy_from_slice(body);
                at += body.len();
            }
        }
    }
}
