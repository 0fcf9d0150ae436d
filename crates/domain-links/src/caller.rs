//! Connections to a neighbor: the call, and the delay before the next one.

use std::fmt;
use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_capture::target::Target;
use lighthaul_io::control::Control;
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::error::Error;
use lighthaul_io::net::{dial, tcp};

use crate::endpoints::Identification;
use crate::link::Link;
use crate::link_fault::LinkFault;
use lighthaul_io::host::wall_clock::wall_now;

/// Connects to a neighbor and takes the connection into use, if its key is the pinned one.
pub(crate) fn call(link: &Link, known: &Identification, address: &Target) {
    let fault = match connect(link, known, address) {
        Ok(control) => {
            link.offer(&control, link.me);
            None
        }
        Err(fault) => Some(fault),
    };
    link.end_call(fault);
}

fn connect(link: &Link, known: &Identification, address: &Target) -> Result<Control, LinkFault> {
    let domain = link.neighbor.0;
    let failed = |why: Error| LinkFault::Network {
        domain,
        why: why.to_string(),
    };
    let pinned = known.neighbors.get(&link.neighbor);
    let pinned = pinned.ok_or_else(|| failed(Error::Network("it was removed".to_owned())))?;
    if wall_now() >= pinned.expires {
        return Err(LinkFault::Expired { domain });
    }
    let unreachable = |why: &dyn fmt::Display| LinkFault::Network {
        domain,
        why: format!("cannot reach {address}: {why}; ask its operator if the service runs there"),
    };
    let addresses = dial::resolve(&address.host.to_string(), address.port);
    let addresses = addresses.map_err(|why| unreachable(&why))?;
    let mut last = None;
    let mut open = addresses.into_iter().take(ADDRESSES_MAX).filter_map(|one| {
        let dialed = dial::dial(one, PATIENCE);
        dialed.map_err(|why| last = Some(why)).ok()
    });
    let (tcp, _) = open.next().ok_or(()).map_err(|()| match &last {
        Some(why) => unreachable(why),
        None => unreachable(&"the name has no address"),
    })?;
    let mut tcp = tcp::with_handshake_timeouts(tcp).map_err(failed)?;
    link.called(&tcp);
    let tls = tls::handshake(&mut tcp, Side::Client, &known.identity).map_err(failed)?;
    let shown = tls::peer(&tls).map_err(failed)?;
    if !shown.is(pinned.key) {
        return Err(LinkFault::OtherKey {
            domain,
            address: address.to_string(),
            shown,
            pinned: pinned.key,
        });
    }
    Control::start(tcp, tls).map_err(failed)
}

/// Delays between calls: they double, and vary by a half so that hosts do not call in step.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    rng: Rng,
}

impl Backoff {
    /// Returns delays that start with the shortest one.
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            next: DELAY_MIN,
            rng: Rng::new(seed),
        }
    }

    /// Starts again with the shortest delay.
    pub(crate) const fn reset(&mut self) {
        self.next = DELAY_MIN;
    }

    /// Returns the next delay.
    pub(crate) fn delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(DELAY_MAX);
        let half = delay / 2;
        let span = delay.as_nanos() as u64;
        half + Duration::from_nanos(self.rng.below(span))
    }
}

/// Time limit for the answer of one address.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;
const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit_and_start_again() {
        let mut backoff = Backoff::new(1);
        let mut least = DELAY_MIN / 2;
        for _ in 0..12 {
            let delay = backoff.delay();
            assert!(delay >= least && delay <= least * 3, "{delay:?} {least:?}");
            least = (least * 2).min(DELAY_MAX / 2);
        }
        backoff.reset();
        assert!(backoff.delay() <= DELAY_MIN * 3 / 2);
    }
}
