//! An end system that absorbs only so much.

use lighthaul_base::{Instant, Rate};

use crate::link::{Counters, Link, LinkConfig, Verdict};

/// What a receiving host is made of; the default is one that absorbs all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// How fast it takes datagrams from its socket, or all at once.
    pub absorb: Option<Rate>,
    /// Bytes that the socket holds meanwhile.
    pub socket_bytes_max: u64,
}

/// A receiving host: a socket's buffer, and a processor that empties it at a rate of its own.
///
/// It is the section 4.2.1 of the RBUDP paper in its simplest form: what finds the buffer full is
/// lost.
#[derive(Clone, Debug)]
pub struct Host {
    socket: Link,
}

impl Host {
    /// A host with an empty socket.
    pub const fn new(config: HostConfig) -> Self {
        let socket = LinkConfig {
            rate: config.absorb,
            queue_bytes_max: config.socket_bytes_max,
            ..LinkConfig::PERFECT
        };
        // nothing here is up to chance
        Self {
            socket: Link::new(socket, 0),
        }
    }

    /// Takes a datagram of `len` bytes in; answers when its machine gets it, or nothing if it is
    /// lost.
    pub fn absorb(&mut self, now: Instant, len: u32) -> Option<Instant> {
        match self.socket.offer(now, len) {
            Verdict::Delivered { at, .. } => Some(at),
            Verdict::Dropped(_) => None,
        }
    }

    /// What it has seen; `dropped_queue` is what its socket lost.
    pub const fn counters(&self) -> &Counters {
        self.socket.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_host_loses_what_its_socket_cannot_hold() {
        let mut host = Host::new(HostConfig {
            absorb: Some(Rate::from_mbps(8)),
            socket_bytes_max: 2500,
        });
        let now = Instant::ZERO;
        assert_eq!(host.absorb(now, 1000), Some(Instant::from_nanos(1_000_000)));
        assert_eq!(host.absorb(now, 1000), Some(Instant::from_nanos(2_000_000)));
        assert_eq!(host.absorb(now, 1000), None);
        assert_eq!(host.counters().dropped_queue.packets, 1);
        assert_eq!(
            Host::new(HostConfig::default()).absorb(now, 9000),
            Some(now)
        );
    }
}
