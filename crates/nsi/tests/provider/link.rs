//! Network of one link in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};

use lighthaul_booking_client::json::Timestamp;
use lighthaul_nsi::message::ErrorId;
use lighthaul_nsi::provider::{Circuit, Committed, Hold, Refusal, Resources, Status};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const HOLD: u64 = 10 * SECOND;
pub(super) const LINK_MBPS: u64 = 1000;

/// Link with a constant capacity. Reservations are kept over restarts of the provider.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) now: Arc<AtomicU64>,
    booked: Arc<Mutex<BTreeMap<String, Booked>>>,
    /// True while calls fail for the moment.
    pub(super) is_down: Arc<AtomicBool>,
    /// Calls that fail, with the reason.
    failing: Arc<Mutex<BTreeMap<&'static str, Refusal>>>,
    /// Status of all circuits, if it is not that of the reservations.
    pub(super) status: Arc<Mutex<Option<Status>>>,
    /// Circuits that were asked for.
    pub(super) circuits: Arc<Mutex<Vec<Circuit>>>,
    /// Channels of a slow hold: it reports that it has begun, and waits until it may end.
    pub(super) slow: Arc<Mutex<Option<SlowCall>>>,
}

/// Ends of two channels: for the start of a call, and for its end.
pub(super) type SlowCall = (Sender<()>, Receiver<()>);

#[derive(Clone, Debug)]
pub(super) struct Booked {
    pub(super) id: u64,
    pub(super) mbps: u64,
    till: u64,
    pub(super) is_committed: bool,
    pub(super) is_provisioned: bool,
    pub(super) is_ended: bool,
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            now: Arc::new(AtomicU64::new(1_800_000_000 * SECOND)),
            booked: Arc::default(),
            is_down: Arc::default(),
            failing: Arc::default(),
            status: Arc::default(),
            circuits: Arc::default(),
            slow: Arc::default(),
        }
    }

    /// Makes a call fail from now on, for the moment or for good, or not at all.
    pub(super) fn fail(&self, call: &'static str, is_temporary: Option<bool>) {
        let mut failing = self.failing.lock().unwrap();
        failing.remove(call);
        if let Some(is_temporary) = is_temporary {
            let why = refusal(ErrorId::NoPath);
            failing.insert(
                call,
                Refusal {
                    is_temporary,
                    ..why
                },
            );
        }
    }

    fn check(&self, call: &'static str) -> Result<(), Refusal> {
        let failing = guard(&self.failing).get(call).cloned();
        if let Some(why) = failing {
            return Err(why);
        }
        let is_temporary = self.is_down.load(Ordering::Relaxed);
        let why = refusal(ErrorId::Internal);
        if is_temporary {
            return Err(Refusal {
                is_temporary,
                ..why
            });
        }
        Ok(())
    }

    fn wait_if_slow(&self) {
        let slow = self.slow.lock().unwrap().take();
        if let Some((begun, end)) = slow {
            begun.send(()).unwrap();
            end.recv().unwrap();
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn all(&self) -> MutexGuard<'_, BTreeMap<String, Booked>> {
        self.booked.lock().unwrap()
    }

    fn with(
        &self,
        call: &'static str,
        ids: &[u64],
        act: impl Fn(&mut Booked) -> bool,
    ) -> Result<(), Refusal> {
        self.check(call)?;
        let mut booked = self.all();
        for one in booked.values_mut().filter(|one| ids.contains(&one.id)) {
            if !act(one) {
                return Err(refusal(ErrorId::InvalidTransition));
            }
        }
        Ok(())
    }

    /// Returns the rate that is held or promised.
    pub(super) fn used(&self) -> u64 {
        let now = self.now();
        let booked = self.all();
        let live = booked
            .values()
            .filter(|one| !one.is_ended && (one.is_committed || one.till > now));
        live.map(|one| one.mbps).sum()
    }
}

fn refusal(id: ErrorId) -> Refusal {
    Refusal {
        id,
        text: "no".to_owned(),
        is_temporary: false,
    }
}

fn guard<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap()
}

impl Resources for Link {
    fn hold(&self, _: &str, key: &str, circuit: &Circuit) -> Result<Hold, Refusal> {
        self.check("hold")?;
        guard(&self.circuits).push(circuit.clone());
        self.wait_if_slow();
        let known = self.all().get(key).cloned();
        let used = self.used();
        let booked = match known {
            Some(booked) => booked,
            None if used + circuit.rate_mbps > LINK_MBPS => {
                return Err(refusal(ErrorId::CapacityUnavailable));
            }
            None => {
                let mut all = self.all();
                let booked = Booked {
                    id: all.len() as u64,
                    mbps: circuit.rate_mbps,
                    till: self.now() + HOLD,
                    is_committed: false,
                    is_provisioned: false,
                    is_ended: false,
                };
                all.insert(key.to_owned(), booked.clone());
                booked
            }
        };
        Ok(Hold {
            reservations: vec![booked.id],
            till: Timestamp(booked.till),
        })
    }

    fn commit(&self, _: &str, ids: &[u64]) -> Result<(), Refusal> {
        let now = self.now();
        self.with("commit", ids, |one| {
            one.is_committed |= !one.is_ended && one.till > now;
            one.is_committed
        })
    }

    fn provision(&self, _: &str, ids: &[u64]) -> Result<(), Refusal> {
        self.with("provision", ids, |one| {
            one.is_provisioned = one.is_committed && !one.is_ended;
            one.is_provisioned
        })
    }

    fn release(&self, _: &str, ids: &[u64]) -> Result<(), Refusal> {
        self.with("release", ids, |one| {
            one.is_provisioned = false;
            true
        })
    }

    fn end(&self, _: &str, ids: &[u64]) -> Result<(), Refusal> {
        self.with("end", ids, |one| {
            one.is_ended = true;
            true
        })
    }

    fn committed(&self) -> Result<Vec<Committed>, Refusal> {
        self.check("committed")?;
        let booked = self.all();
        let live = booked
            .values()
            .filter(|one| one.is_committed && !one.is_ended);
        let owner = || "agg".to_owned();
        Ok(live
            .map(|one| Committed {
                owner: owner(),
                id: one.id,
            })
            .collect())
    }

    fn missing(&self, _: &str, ids: &[u64], circuit: &Circuit) -> Result<Vec<u64>, Refusal> {
        self.check("missing")?;
        let booked = self.all();
        let has = |id: &u64| {
            let mut ours = booked.values().filter(|one| one.id == *id);
            ours.any(|one| one.mbps == circuit.rate_mbps)
        };
        Ok(ids.iter().filter(|id| !has(id)).copied().collect())
    }

    fn status(&self, _: &str, ids: &[u64]) -> Result<Status, Refusal> {
        self.check("status")?;
        if let Some(status) = guard(&self.status).clone() {
            return Ok(status);
        }
        let booked = self.all();
        let mut ours = booked.values().filter(|one| ids.contains(&one.id));
        let is_active = ours.any(|one| one.is_provisioned && !one.is_ended);
        Ok(if is_active {
            Status::Active
        } else {
            Status::Idle
        })
    }
}
