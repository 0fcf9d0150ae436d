//! Control of the protocol of the next objects, by the decisions of a [`ProtocolSwitch`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_base::Instant;
use lighthaul_copy::message::Progress;
use lighthaul_io::control::Control;
use lighthaul_session::choose::PathFacts;
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol_switch::{Evidence, ProtocolSwitch};

use super::rate_control::RateControl;
use super::transfer::Transfer;

/// Protocol of the next objects, known after the set-up of the path.
#[derive(Debug, Default)]
pub(super) struct SwitchControl(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    course: ProtocolSwitch,
    /// Parameters that both sides agreed on.
    offer: Offer,
    /// True if the rate was not measured now, and must be checked.
    is_remembered: bool,
    /// Connections on which TCP carries objects.
    connections: Vec<Control>,
}

impl SwitchControl {
    /// Starts with the protocol of `offer`, which was chosen by `facts`.
    pub(super) fn start(
        &self,
        (offer, facts): (Offer, PathFacts),
        is_remembered: bool,
        connections: Vec<Control>,
    ) {
        *self.lock() = Some(Running {
            course: ProtocolSwitch::new(offer.protocol, facts),
            offer,
            is_remembered,
            connections,
        });
    }

    /// Returns the parameters of the next object, if the protocol may change.
    pub(super) fn offer(&self) -> Option<Offer> {
        let running = self.lock();
        let running = running.as_ref()?;
        Some(running.offer.with(running.course.protocol()))
    }

    /// Adapts to a report of the receiver. If the protocol changes, the rate follows other rules, and both sides get
    /// the reason.
    pub(super) fn update(
        &self,
        now: Instant,
        progress: &Progress,
        transfer: &Transfer<'_>,
        rate: &RateControl,
    ) {
        let mut running = self.lock();
        let Some(running) = running.as_mut() else {
            return;
        };
        let counts = running.connections.iter().filter_map(Control::segments);
        let evidence = Evidence {
            bytes: progress.bytes,
            segments: counts.fold((0, 0), |sum: (u32, u32), one| {
                (sum.0.wrapping_add(one.0), sum.1.wrapping_add(one.1))
            }),
            limit: rate.share().whole(),
        };
        let before = running.course.protocol();
        if let Some(choice) = running.course.update(now, evidence) {
            let offer = running.offer.with(choice.protocol);
            let settings = (&transfer.settings, running.is_remembered);
            rate.change(now, (before, &offer), settings);
            transfer.choose(choice);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
