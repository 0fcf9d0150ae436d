//! Windows for a gateway: books what its backlog needs, keeps to what was granted, and gives back what it does not need.

use std::thread;
use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_booking_client::client::Client;
use lighthaul_booking_client::json::{Bps, Bytes, NewReservation, Reservation, Timestamp};
use lighthaul_gateway::link_handle::LinkHandle;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::interrupt;
use lighthaul_remote::scheduler::{failed, reach};
use lighthaul_session::error::Error;
use tracing::{info, warn};

use super::settings::Booked;

/// Books for a line, in a thread of its own, until the process stops.
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
    /// By how many nanoseconds the scheduler's clock is ahead of this host's.
    ahead: i64,
    /// When the two are compared again.
    compare_at: Instant,
    /// Fields of every request.
    request: NewReservation,
    line: LinkHandle,
    windows: Vec<Window>,
    /// Bytes that programs had said when it was last looked, and how many they say in a second.
    read: u64,
    speed: u64,
    idle_since: Option<Instant>,
    retry_at: Instant,
    /// Last error of the scheduler.
    refused: String,
}

/// A reservation, by the line's clock.
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

    /// Books, or gives back, as the backlog asks for.
    fn look(&mut self) {
        let now = self.line.clock().now();
        let counters = self.line.status().snapshot();
        let said = counters.read.saturating_sub(self.read);
        self.read = counters.read;
        let speed = said.saturating_mul(1000) / LOOK.as_millis() as u64;
        // what a moment says counts for an eighth
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

    /// Bytes that the windows still carry.
    fn left(&self, now: Instant) -> u64 {
        let steps = self.windows.iter().flat_map(|window| &window.steps);
        let bytes = steps.map(|step| {
            let from = step.from.max(now);
            step.rate.bytes_in(step.till.since(from))
        });
        bytes.sum()
    }

    /// Books what the backlog needs, and what will be said until it is done.
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
                    "reservation {} is booked for {size} bytes, in {} steps",
                    window.id,
                    window.steps.len()
                );
                self.refused.clear();
                self.windows.push(window);
                self.follow();
            }
            Err(why) => {
                let why = why.to_string();
                if why != self.refused {
                    warn!("nothing was booked for {size} bytes, and will be tried again: {why}");
                }
                self.refused = why;
                self.retry_at = self.line.clock().now() + RETRY;
            }
        }
    }

    /// Measures again, at intervals, how much the scheduler's clock is ahead: clocks drift and are set.
    fn compare_clocks(&mut self) {
        let now = self.line.clock().now();
        if now < self.compare_at {
            return;
        }
        self.compare_at = now + COMPARE;
        match self.client.clock_offset() {
            Ok((ahead, _)) => self.ahead = ahead,
            Err(error) => warn!("the scheduler's clock could not be read: {error}"),
        }
    }

    /// Leaves to others what is left of the windows.
    fn give_back(&mut self, why: &str) {
        for window in std::mem::take(&mut self.windows) {
            let id = window.id;
            // what has not begun is called off instead
            let released = self.client.release(id, why);
            match released.or_else(|_| self.client.cancel(id, why)) {
                Ok(_) => info!("reservation {id} was released: {why}"),
                Err(error) => warn!("reservation {id} could not be released: {error}"),
            }
        }
        self.follow();
    }

    /// Tells the line what its channel carries: the windows, and nothing before, between and behind them.
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

    /// A moment of the line's, by the scheduler's clock.
    fn there(&self, at: Instant) -> Timestamp {
        let left = at.since(self.line.clock().now());
        let nanos = unix_nanos().saturating_add(left.as_nanos() as u64);
        Timestamp(nanos.saturating_add_signed(self.ahead))
    }

    /// The steps of a reservation, by the line's clock.
    fn here(&self, reservation: &Reservation) -> Vec<Step> {
        let (now, wall) = (self.line.clock().now(), unix_nanos());
        let at = |moment: Timestamp| {
            let moment = moment.0.saturating_add_signed(self.ahead.saturating_neg());
            let ahead = Duration::from_nanos(moment.saturating_sub(wall));
            let behind = Duration::from_nanos(wall.saturating_sub(moment));
            now + ahead - behind
        };
        let steps = reservation.steps.iter().filter_map(|step| {
            let rate = Rate::from_bps(step.rate_bps)?;
            let (from, till) = (at(step.from), at(step.till));
            (from < till).then_some(Step { from, till, rate })
        });
        steps.collect()
    }
}

/// A vector that is over.
const PAST: Step = Step {
    from: Instant::ZERO,
    till: Instant::from_nanos(1),
    rate: Rate::from_mbps(1),
};
/// Interval at which the backlog is examined.
const LOOK: Duration = Duration::from_millis(100);
/// Time from the request of a window to its first step.
const LEAD: Duration = Duration::from_millis(300);
/// Traffic of this much time must be booked in advance.
const AHEAD: Duration = Duration::from_millis(700);
/// Traffic of this much time is booked at once.
const WINDOW: Duration = Duration::from_secs(3);
/// Idle time after which windows are released.
const IDLE: Duration = Duration::from_millis(500);
/// Interval at which clocks are compared.
const COMPARE: Duration = Duration::from_mins(1);
/// Pause after a refusal.
const RETRY: Duration = Duration::from_secs(1);
/// Headers and retransmissions add one byte in this many.
const HEADS: u64 = 12;
/// Smallest booking.
const BYTES_MIN: u64 = 1 << 20;
