//! Reservations for the link of a gateway.
//!
//! A thread reserves capacity for the backlog, limits the link to the granted windows of time, and releases what the
//! link does not need.

use std::thread;
use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate, Trc, counted};
use lighthaul_booking_client::client::Client;
use lighthaul_booking_client::json::{Bps, Bytes, NewReservation, Reservation, Timestamp};
use lighthaul_gateway::link_handle::LinkHandle;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::interrupt;
use lighthaul_remote::scheduler::{failed, reach};
use lighthaul_session::error::Error;
use tracing::{info, warn};

use super::settings::Booked;

/// Reserves capacity for a link, in a thread of its own, until the process stops.
pub(super) fn start(booked: &Booked, line: LinkHandle) -> Result<(), Error> {
    let client = reach(&booked.scheduler)?;
    let (ahead, _) = client.clock_offset().map_err(failed)?;
    let compare_at = line.clock().now() + COMPARE;
    let booker = Booker {
        client,
        ahead,
        compare_at,
        request: NewReservation {
            from: booked.from.clone(),
            to: booked.to.clone(),
            rate_max: booked.rate_max.map(Bps::from),
            margin_percent: Some(0),
            commit: true,
            ..NewReservation::default()
        },
        line,
        windows: Vec::new(),
        read: 0,
        speed: 0,
        idle_since: None,
        retry_at: Instant::ZERO,
        refused: String::new(),
    };
    booker.follow();
    thread::spawn(move || booker.run());
    Ok(())
}

/// State of the booking thread.
struct Booker {
    client: Client,
    /// Nanoseconds by which the scheduler's clock is ahead of this host's clock.
    ahead: i64,
    /// Time of the next comparison of both clocks.
    compare_at: Instant,
    /// Fields of every request.
    request: NewReservation,
    line: LinkHandle,
    windows: Vec<Window>,
    /// Number of bytes that programs had sent at the last check.
    read: u64,
    /// Rate at the last check, in bytes per second.
    speed: u64,
    idle_since: Option<Instant>,
    retry_at: Instant,
    /// Last error of the scheduler.
    refused: String,
}

/// Reservation, in times of the link's clock.
struct Window {
    id: u64,
    steps: Vec<Step>,
}

impl Window {
    fn end(&self) -> Instant {
        self.steps.last().map_or(Instant::ZERO, |step| step.till)
    }
}

impl Booker {
    fn run(mut self) {
        while !interrupt::is_requested() {
            self.look();
            thread::park_timeout(LOOK);
        }
        self.give_back("the gateway stops");
    }

    /// Reserves or releases capacity, as the backlog requires.
    fn look(&mut self) {
        let now = self.line.clock().now();
        let counters = self.line.status().snapshot();
        let said = counters.read.saturating_sub(self.read);
        self.read = counters.read;
        let speed = said.saturating_mul(1000) / LOOK.as_millis() as u64;
        // moving average: a new sample counts for one eighth
        self.speed = (self.speed * 7 + speed) / 8;
        self.windows.retain(|window| window.end() > now);
        let backlog = counters.memory_out;
        if backlog == 0 {
            let since = *self.idle_since.get_or_insert(now);
            if now >= since + IDLE && !self.windows.is_empty() {
                self.give_back("nothing is left to send");
            }
            return;
        }
        self.idle_since = None;
        let end = self.windows.last().map_or(now, Window::end);
        let soon = self.speed.saturating_mul(AHEAD.as_millis() as u64) / 1000;
        if now >= self.retry_at && self.left(now) < backlog.saturating_add(soon) {
            self.book(end.max(now + LEAD), backlog);
        }
    }

    /// Returns the bytes that the remaining windows can carry.
    fn left(&self, now: Instant) -> u64 {
        let steps = self.windows.iter().flat_map(|window| &window.steps);
        let bytes = steps.map(|step| {
            let from = step.from.max(now);
            step.rate.bytes_in(step.till.since(from))
        });
        bytes.sum()
    }

    /// Reserves capacity for the backlog, and for the data expected until the backlog is sent.
    fn book(&mut self, start: Instant, backlog: u64) {
        self.compare_clocks();
        let bytes = backlog.max(self.speed.saturating_mul(WINDOW.as_secs()));
        let size = bytes + bytes / HEADS + BYTES_MIN;
        let request = NewReservation {
            size: Some(Bytes(size)),
            start: Some(self.there(start)),
            ..self.request.clone()
        };
        match self.client.reserve(&request).map_err(failed) {
            Ok(reservation) => {
                let window = Window {
                    id: reservation.id,
                    steps: self.here(&reservation),
                };
                info!(
                    "reservation {} for {size} bytes is booked with {}",
                    window.id,
                    counted(window.steps.len() as u64, "step", "steps")
                );
                self.refused.clear();
                self.windows.push(window);
                self.follow();
            }
            Err(why) => {
                let why = why.to_string();
                if why != self.refused {
                    warn!("cannot reserve capacity for {size} bytes: {why}; trying again");
                }
                self.refused = why;
                self.retry_at = self.line.clock().now() + RETRY;
            }
        }
    }

    /// Measures at intervals how far the scheduler's clock is ahead, since clocks drift and may be adjusted.
    fn compare_clocks(&mut self) {
        let now = self.line.clock().now();
        if now < self.compare_at {
            return;
        }
        self.compare_at = now + COMPARE;
        match self.client.clock_offset() {
            Ok((ahead, _)) => self.ahead = ahead,
            Err(error) => warn!("cannot read the scheduler's clock: {error}"),
        }
    }

    /// Releases the remaining capacity of the windows.
    fn give_back(&mut self, why: &str) {
        for window in std::mem::take(&mut self.windows) {
            let id = window.id;
            // a reservation that has not begun is canceled instead
            let released = self.client.release(id, why);
            match released.or_else(|_| self.client.cancel(id, why)) {
                Ok(_) => info!("reservation {id} was released: {why}"),
                Err(error) => warn!("cannot release reservation {id}: {error}"),
            }
        }
        self.follow();
    }

    /// Sets the rates of the link: the rates of the windows, and zero before, between and after them.
    fn follow(&self) {
        let mut steps: Vec<Step> = Vec::new();
        for step in self.windows.iter().flat_map(|window| &window.steps) {
            let from = steps
                .last()
                .map_or(step.from, |last| step.from.max(last.till));
            if from < step.till {
                steps.push(Step { from, ..*step });
            }
        }
        let vector = Trc::new(steps).or_else(|_| Trc::new(vec![PAST]));
        if let Ok(trc) = vector {
            self.line.follow(trc);
        }
    }

    /// Converts a time of the link's clock to the scheduler's clock.
    fn there(&self, at: Instant) -> Timestamp {
        let left = at.since(self.line.clock().now());
        let nanos = unix_nanos().saturating_add(left.as_nanos() as u64);
        Timestamp(nanos.saturating_add_signed(self.ahead))
    }

    /// Returns the steps of a reservation, in times of the link's clock.
    fn here(&self, reservation: &Reservation) -> Vec<Step> {
        let (now, wall) = (self.line.clock().now(), unix_nanos());
        let at = |moment: Timestamp| {
            let moment = moment.0.saturating_add_signed(self.ahead.saturating_neg());
            let ahead = Duration::from_nanos(moment.saturating_sub(wall));
            let behind = Duration::from_nanos(wall.saturating_sub(moment));
            now + ahead - behind
        };
        let steps = reservation.steps.iter().filter_map(|step| {
            let rate = reservation.sending_rate(step)?;
            let (from, till) = (at(step.from), at(step.till));
            (from < till).then_some(Step { from, till, rate })
        });
        steps.collect()
    }
}

/// Returns a vector that has ended.
const PAST: Step = Step {
    from: Instant::ZERO,
    till: Instant::from_nanos(1),
    rate: Rate::from_mbps(1),
};
/// Interval at which the backlog is examined.
const LOOK: Duration = Duration::from_millis(100);
/// Time from the request of a reservation to its first step.
const LEAD: Duration = Duration::from_millis(300);
/// Duration of traffic that must be reserved in advance.
const AHEAD: Duration = Duration::from_millis(700);
/// Duration of traffic that one reservation covers.
const WINDOW: Duration = Duration::from_secs(3);
/// Idle time after which windows are released.
const IDLE: Duration = Duration::from_millis(500);
/// Interval at which clocks are compared.
const COMPARE: Duration = Duration::from_mins(1);
/// Pause after a refusal.
const RETRY: Duration = Duration::from_secs(1);
/// Bytes per byte of headers and retransmissions.
const HEADS: u64 = 12;
/// Smallest reservation, in bytes.
const BYTES_MIN: u64 = 1 << 20;
