//! Shares of a gateway's sessions for hosts and networks of programs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_base::prefix::Prefix;
use lighthaul_base::seats::{Full, Limits, Seats};

/// Sessions of programs by host. One host has at most three quarters of them, one network seven eighths.
#[derive(Clone, Debug)]
pub struct HostShares(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    /// One seat for each host with sessions, with one unit for each session.
    seats: Seats<(), 1>,
    hosts: BTreeMap<Prefix, Host>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    seat: u64,
    sessions: u64,
}

/// Share of one session, which is returned on drop.
#[derive(Debug)]
pub struct HostShare {
    shares: HostShares,
    host: Prefix,
}

impl HostShares {
    /// Creates shares of `most` sessions.
    pub fn new(most: u64) -> Self {
        Self(Arc::new(Mutex::new(Held {
            seats: Seats::lasting([Limits::parts_of(most)]),
            hosts: BTreeMap::new(),
        })))
    }

    /// Takes the share of a session for a program at `address`.
    pub fn enter(&self, address: IpAddr) -> Result<HostShare, Full> {
        let host = Prefix::host(address);
        let mut held = self.lock();
        let next = match held.hosts.get(&host).copied() {
            Some(Host { seat, sessions }) => {
                held.seats.reuse(seat, [sessions + 1])?;
                Host {
                    seat,
                    sessions: sessions + 1,
                }
            }
            None => Host {
                seat: held.seats.take(None, address, [1])?.number,
                sessions: 1,
            },
        };
        held.hosts.insert(host, next);
        drop(held);
        Ok(HostShare {
            shares: self.clone(),
            host,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostShare {
    /// Returns the host of the program.
    pub(crate) const fn host(&self) -> Prefix {
        self.host
    }
}

impl Drop for HostShare {
    fn drop(&mut self) {
        let mut held = self.shares.lock();
        let Some(Host { seat, sessions }) = held.hosts.remove(&self.host) else {
            return;
        };
        if sessions <= 1 {
            held.seats.leave(seat);
            return;
        }
        let sessions = sessions - 1;
        // a decrease is never refused
        held.seats.reuse(seat, [sessions]).ok();
        held.hosts.insert(self.host, Host { seat, sessions });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(site: u8, host: u8) -> IpAddr {
        IpAddr::from([10, 0, site, host])
    }

    #[test]
    fn each_host_and_each_network_is_limited() {
        let shares = HostShares::new(16);
        let enter = |site, host| shares.enter(address(site, host));
        let mut held: Vec<HostShare> = (0..12).map(|_| enter(0, 1).unwrap()).collect();
        let refused = enter(0, 1).unwrap_err().to_string();
        assert!(
            refused.contains("your address already holds 12"),
            "{refused}"
        );
        held.extend([enter(0, 2).unwrap(), enter(0, 3).unwrap()]);
        let refused = enter(0, 4).unwrap_err().to_string();
        assert!(
            refused.contains("your network already holds 14"),
            "{refused}"
        );
        held.extend([enter(1, 1).unwrap(), enter(1, 1).unwrap()]);
        let refused = enter(1, 2).unwrap_err().to_string();
        assert!(refused.contains("all 16 are in use"), "{refused}");
        // a returned share is available to others
        held.remove(0);
        assert!(enter(1, 2).is_ok());
        held.clear();
        assert!(shares.lock().hosts.is_empty());
        assert_eq!(shares.lock().seats.taken(), 0);
    }
}
