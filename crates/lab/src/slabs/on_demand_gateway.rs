//! Gateway whose channel is provisioned on demand and released when idle.

use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Deadline, Endpoint, Instant, Message, Rate, Span, Transmit, Trc};
use lighthaul_workload::station::{Station, StationEvent};

/// Station with a channel on demand.
#[derive(Debug)]
pub struct OnDemandGateway {
    /// Station of the gateway.
    pub station: Station,
    rate: Rate,
    latency: Duration,
    state: ChannelState,
    /// Total time for which closed channels were open.
    pub open: Duration,
}

#[derive(Clone, Copy, Debug)]
enum ChannelState {
    Closed,
    /// The channel opens at the given time.
    Opening(Instant),
    /// The channel is open since the first time, and idle since the second.
    Open(Instant, Option<Instant>),
}

impl OnDemandGateway {
    /// Creates a gateway whose channel opens `latency` after the first byte starts to wait.
    pub fn new(mut station: Station, rate: Rate, latency: Duration) -> Self {
        station.link.follow(Instant::ZERO, Some(closed(rate)));
        Self {
            station,
            rate,
            latency,
            state: ChannelState::Closed,
            open: Duration::ZERO,
        }
    }

    fn look(&mut self, now: Instant) {
        let is_idle = !self.station.link.sender().has_more();
        match self.state {
            ChannelState::Closed if !is_idle => {
                self.state = ChannelState::Opening(now + self.latency);
            }
            ChannelState::Opening(at) if now >= at => {
                self.state = ChannelState::Open(now, None);
                let steady = Some(Trc::steady(self.rate));
                self.station.link.follow(now, steady);
            }
            ChannelState::Open(since, None) if is_idle => {
                self.state = ChannelState::Open(since, Some(now));
            }
            ChannelState::Open(since, Some(_)) if !is_idle => {
                self.state = ChannelState::Open(since, None);
            }
            ChannelState::Open(since, Some(idle)) if now >= idle + IDLE => {
                self.open += now.since(since);
                self.state = ChannelState::Closed;
                self.station.link.follow(now, Some(closed(self.rate)));
            }
            ChannelState::Closed | ChannelState::Opening(_) | ChannelState::Open(..) => {}
        }
    }

    /// Returns the total time until `now` for which the channel was open.
    pub fn open_until(&self, now: Instant) -> Duration {
        match self.state {
            ChannelState::Open(since, _) => self.open + now.since(since),
            ChannelState::Closed | ChannelState::Opening(_) => self.open,
        }
    }

    fn due(&self) -> Instant {
        match self.state {
            ChannelState::Opening(at) => at,
            ChannelState::Open(_, Some(idle)) => idle + IDLE,
            ChannelState::Closed | ChannelState::Open(_, None) => Instant::NEVER,
        }
    }
}

impl Endpoint for OnDemandGateway {
    type Event = StationEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let span = self.station.handle_message(now, message);
        self.look(now);
        span
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.look(now);
        self.station.handle_timeout(now);
        self.look(now);
    }

    fn handle_rate(&mut self, _: Instant, _: Rate) {}

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = self.station.poll_transmit(now);
        if transmit.is_none() {
            self.look(now);
        }
        transmit
    }

    fn poll_event(&mut self) -> Option<StationEvent> {
        self.station.poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let ours = Deadline {
            at: self.due(),
            why: "channel",
        };
        let theirs = self.station.poll_timeout();
        Some(theirs.map_or(
            ours,
            |theirs| if theirs.at < ours.at { theirs } else { ours },
        ))
    }
}

/// Returns a vector that has already ended.
fn closed(rate: Rate) -> Trc {
    let (from, till) = (Instant::ZERO, Instant::from_nanos(1));
    let step = Step { from, till, rate };
    Trc::new(vec![step]).unwrap_or_else(|_| Trc::steady(rate))
}

/// Idle time after which a channel is released.
const IDLE: Duration = Duration::from_millis(20);
