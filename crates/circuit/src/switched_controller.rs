//! Controller that can be disabled, since another program controls its device.
//!
//! A disabled controller has no work and no circuits, so that the device stays as it is. Once it is enabled, its first
//! work is an inspection, which adopts the circuits that another program has installed meanwhile. It is enabled until a
//! time: an owner that hangs disables it in this way.

use lighthaul_base::Instant;

use crate::controller::{Controller, Work};
use crate::driver::Capabilities;
use crate::error::Result;

/// Controller of a device, and the time until which it may use the device.
#[derive(Debug)]
pub(crate) struct SwitchedController {
    controller: Controller,
    /// Time until which the controller is enabled.
    till: Instant,
    /// Number of times that the controller was disabled. It identifies calls of the driver that began before.
    period: u64,
    /// True if the device was read without circuits, and was not changed since.
    pub(crate) is_empty: bool,
}

impl SwitchedController {
    /// Creates a disabled controller.
    pub(crate) fn new(capabilities: Capabilities) -> Result<Self> {
        Ok(Self {
            controller: Controller::new(capabilities)?,
            till: Instant::ZERO,
            period: 0,
            is_empty: false,
        })
    }

    /// Returns the controller. A disabled one forgets its circuits before its next work.
    pub(crate) const fn controller(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// Returns the controller for the result of a call that began in `period`. Returns none if it was disabled since.
    pub(crate) fn of_period(&mut self, period: u64) -> Option<&mut Controller> {
        (self.period == period).then_some(&mut self.controller)
    }

    /// Enables the controller until `till`. Its circuits are those that were added since it was disabled.
    pub(crate) const fn enable(&mut self, till: Instant) {
        self.till = till;
    }

    /// Keeps the controller enabled until `till`. Returns false if it is disabled already.
    pub(crate) fn extend(&mut self, now: Instant, till: Instant) -> bool {
        let is_enabled = now < self.till;
        if is_enabled {
            self.till = till;
        }
        is_enabled
    }

    /// Disables the controller. It forgets its circuits and events.
    pub(crate) fn disable(&mut self) {
        self.till = Instant::ZERO;
        self.period += 1;
        self.is_empty = false;
        self.controller.forget();
    }

    /// Returns the work that is due at `now`, and its period.
    pub(crate) fn poll_work(&mut self, now: Instant) -> (Work, u64) {
        if now < self.till {
            return (self.controller.poll_work(now), self.period);
        }
        if self.till > Instant::ZERO {
            self.disable();
        }
        (Work::Wait(Instant::NEVER), self.period)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lighthaul_base::Rate;

    use super::*;
    use crate::circuit::{Circuit, CircuitId};
    use crate::driver::{CountedBytes, InstalledCircuit};
    use crate::flow::Flow;

    const CAPABILITIES: Capabilities = Capabilities {
        rate_min: Rate::from_mbps(1),
        rate_max: Rate::from_mbps(10),
        granularity: Rate::from_mbps(1),
        reconfiguration: Duration::ZERO,
        settling: Duration::ZERO,
        entries_max: 4,
        counted: CountedBytes::IP,
        timer_max: None,
    };

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Returns a circuit that a device has.
    fn standing(id: u64) -> InstalledCircuit {
        InstalledCircuit {
            id: CircuitId(id),
            flow: Some(Flow::ALL),
            rate: Some(Rate::from_mbps(1)),
        }
    }

    #[test]
    fn controller_uses_its_device_only_while_it_is_enabled() {
        let mut switched = SwitchedController::new(CAPABILITIES).unwrap();
        let nothing = Work::Wait(Instant::NEVER);
        assert_eq!(switched.poll_work(at(0)).0, nothing);
        assert!(!switched.extend(at(0), at(9)), "extends no end");
        assert_eq!(switched.poll_work(at(0)).0, nothing);
        switched.enable(at(10));
        let (work, period) = switched.poll_work(at(1));
        assert_eq!(work, Work::Inspect);
        let found = Ok(vec![standing(7)]);
        switched
            .of_period(period)
            .unwrap()
            .handle_inspected(at(1), found);
        let (work, _) = switched.poll_work(at(1));
        assert_eq!(work, Work::Remove(CircuitId(7)));
        assert!(switched.extend(at(9), at(20)));
        assert_eq!(switched.poll_work(at(19)).0, Work::Remove(CircuitId(7)));
        // the owner hangs
        assert_eq!(switched.poll_work(at(20)).0, nothing);
        assert!(!switched.extend(at(20), at(30)));
        assert_eq!(switched.poll_work(at(20)).0, nothing);
    }

    #[test]
    fn enabled_controller_reads_its_device_again() {
        let mut switched = SwitchedController::new(CAPABILITIES).unwrap();
        switched.enable(at(10));
        let (_, before) = switched.poll_work(at(1));
        switched.is_empty = true;
        switched.disable();
        assert!(!switched.is_empty);
        let circuit = Circuit {
            id: CircuitId(7),
            interface: "eth1".to_owned(),
            flow: Flow::ALL,
            trc: "0s-60s 1Mb/s".parse().unwrap(),
        };
        switched
            .controller()
            .put(at(2), circuit, Instant::NEVER)
            .unwrap();
        switched.enable(Instant::NEVER);
        // the device has changed since this inspection
        assert!(switched.of_period(before).is_none());
        let (work, period) = switched.poll_work(at(2));
        assert_eq!(work, Work::Inspect);
        let found = Ok(vec![standing(7)]);
        switched
            .of_period(period)
            .unwrap()
            .handle_inspected(at(2), found);
        assert!(matches!(switched.poll_work(at(2)).0, Work::Wait(_)));
    }

    #[test]
    fn freed_capacity_stays_in_use_while_the_controller_is_disabled() {
        let mut switched = SwitchedController::new(Capabilities {
            reconfiguration: Duration::from_secs(5),
            ..CAPABILITIES
        })
        .unwrap();
        let full = |id: u64| Circuit {
            id: CircuitId(id),
            interface: "eth1".to_owned(),
            flow: format!("udp {id}").parse().unwrap(),
            trc: "0s-60s 10Mb/s".parse().unwrap(),
        };
        let rate = Some(Rate::from_mbps(10));
        // a device that does all work at once
        let work = |switched: &mut SwitchedController, now: Instant| {
            let mut last = None;
            for _ in 0..20 {
                let (work, _) = switched.poll_work(now);
                let controller = switched.controller();
                match work {
                    Work::Inspect => controller.handle_inspected(now, Ok(Vec::new())),
                    Work::Remove(id) => controller.handle_removed(now, id, Ok(())),
                    Work::Apply(changes) => {
                        for (id, rate) in changes {
                            controller.handle_applied(now, id, rate, Ok(()));
                            last = rate;
                        }
                    }
                    Work::Wait(_) => return last,
                }
            }
            panic!("the work does not end");
        };
        switched
            .controller()
            .put(at(1), full(7), Instant::NEVER)
            .unwrap();
        switched.enable(Instant::NEVER);
        assert_eq!(work(&mut switched, at(1)), rate);
        switched.controller().release(at(3), CircuitId(7)).unwrap();
        assert_eq!(work(&mut switched, at(3)), None);
        switched.disable();
        switched
            .controller()
            .put(at(4), full(8), Instant::NEVER)
            .unwrap();
        switched.enable(Instant::NEVER);
        assert_eq!(work(&mut switched, at(4)), None);
        assert_eq!(work(&mut switched, at(7)), None);
        assert_eq!(work(&mut switched, at(8)), rate);
    }
}
