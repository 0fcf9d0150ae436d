//! Limit on the memory of request bodies, from their first byte until the client is authenticated.
//!
//! When the memory is full, the body that has made no progress for longest ends for another. Those
//! of unauthenticated connections end before others. A complete body never ends for another.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_base::seats::{Full, Limits, Seats, Within};
use lighthaul_io::host::clock::Clock;
use tokio::sync::Notify;

use super::peer::Peer;

/// Memory for request bodies, in KiB.
#[derive(Clone, Debug)]
pub(crate) struct RequestMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    seats: Seats<String, 1>,
    /// Ends of the bodies, by seat.
    ends: BTreeMap<u64, Arc<Notify>>,
}

/// Memory of one body, which is freed on drop.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    memory: RequestMemory,
    number: u64,
    end: Arc<Notify>,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let mut held = self.memory.lock();
        held.seats.leave(self.number);
        held.ends.remove(&self.number);
    }
}

impl RequestMemory {
    /// Returns a limit of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let all = (bytes as u64 >> 10).max(2);
        let limits = Limits {
            // one slow host of a site keeps no other there from ending slow bodies
            site: u64::MAX,
            ..Limits::parts_of(all)
        };
        Self(Arc::new(Inner {
            clock: Clock::start(),
            held: Mutex::new(Held {
                seats: Seats::lasting([limits]),
                ends: BTreeMap::new(),
            }),
        }))
    }

    /// Takes memory for a body of `length` bytes from `peer`, perhaps that of an incomplete body.
    pub(crate) fn take(&self, peer: Option<&Peer>, length: u64) -> Result<RequestSlot, Full> {
        let kib = length.div_ceil(1 << 10);
        let name = peer.and_then(|Peer(_, connection)| connection.identity());
        let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(address, _)| {
            *address
        });
        let mut held = self.lock();
        let number = loop {
            match held.seats.take(name.clone(), address, [kib]) {
                Ok(seated) => break seated.number,
                Err(full) if full.within == Within::All => {
                    let slowest = held.seats.take_idle().ok_or(full)?;
                    if let Some(end) = held.ends.remove(&slowest) {
                        end.notify_one();
                    }
                }
                Err(full) => return Err(full),
            }
        };
        let end = Arc::new(Notify::new());
        held.ends.insert(number, Arc::clone(&end));
        drop(held);
        let slot = RequestSlot {
            memory: self.clone(),
            number,
            end,
        };
        slot.progress();
        Ok(slot)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestSlot {
    /// Notes that a part of the body has arrived.
    pub(crate) fn progress(&self) {
        let now = self.memory.0.clock.now().as_nanos();
        self.memory.lock().seats.note_idle(self.number, Some(now));
    }

    /// Notes that the body is complete.
    pub(crate) fn complete(&self) {
        self.memory.lock().seats.note_idle(self.number, None);
    }

    /// Waits until the body must end for another.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }
}

/// Memory for all bodies in bytes.
pub(crate) const BODIES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{Connections, Limits as CallerLimits};
    use futures_util::FutureExt;

    const LONG: u64 = 64 << 10;

    fn peer(connections: &Connections, name: Option<&str>, site: u8) -> Peer {
        let address = IpAddr::from([10, 0, site, 1]);
        let connection = Arc::new(connections.admit(address).unwrap());
        if let Some(name) = name {
            connection.identify(name);
        }
        Peer(address, connection)
    }

    fn has_ended(slot: &RequestSlot) -> bool {
        slot.ended().now_or_never().is_some()
    }

    #[test]
    fn slowest_incomplete_body_of_an_unknown_client_ends_for_another_body() {
        let connections = Connections::new(CallerLimits::default());
        let memory = RequestMemory::new(4 * LONG as usize);
        let take = |name, site, length| {
            let peer = peer(&connections, name, site);
            memory.take(Some(&peer), length)
        };
        let known = take(Some("ada"), 0, LONG).unwrap();
        let [complete, slow, fast] = [1, 2, 3].map(|site| take(None, site, LONG).unwrap());
        complete.complete();
        fast.progress();
        // two bodies of up to 32 KiB fit into the memory of one
        let small = [4, 5].map(|site| take(None, site, LONG / 2 - 7).unwrap());
        assert!(has_ended(&slow) && !has_ended(&fast) && !has_ended(&known));
        let next = take(None, 6, LONG).unwrap();
        assert!(has_ended(&fast) && !small.iter().any(has_ended));
        drop(next);
        let _free = take(None, 7, LONG).unwrap();
        assert!(!small.iter().any(has_ended) && !has_ended(&known) && !has_ended(&complete));
        let all = memory.lock();
        assert_eq!((all.seats.taken(), all.ends.len()), (5, 5));
    }

    #[test]
    fn body_is_refused_if_all_other_bodies_are_complete() {
        let connections = Connections::new(CallerLimits::default());
        let memory = RequestMemory::new(4 * LONG as usize);
        let take = |site| memory.take(Some(&peer(&connections, None, site)), LONG);
        let held = [1, 2, 3, 4].map(|site| take(site).unwrap());
        held.iter().for_each(RequestSlot::complete);
        assert_eq!(take(5).unwrap_err().within, Within::All);
        assert!(!held.iter().any(has_ended));
        drop(held);
        assert!(take(5).is_ok());
    }

    #[test]
    fn one_host_cannot_end_the_bodies_of_other_hosts() {
        let connections = Connections::new(CallerLimits::default());
        let memory = RequestMemory::new(4 * LONG as usize);
        let take = |site| memory.take(Some(&peer(&connections, None, site)), LONG);
        let other = take(1).unwrap();
        let _own = [2, 2, 2].map(|site| take(site).unwrap());
        assert_eq!(take(2).unwrap_err().within, Within::Host);
        assert!(!has_ended(&other));
    }
}
