//! Copies on reserved circuits: books, waits, follows the reservation and releases its remaining capacity.
//!
//! The clock of the scheduler may differ from that of this
//! host. Steps are therefore narrowed by the possible error, and the copy never sends outside its
//! reservation. If the reservation ends too early, the rest is copied over TCP.
//!
//! The reservation is released when the last byte has left the circuit. The tail of the transfer on the stream, and
//! the writes of the target to its disk, do not need it.

use std::time::Duration;

use lighthaul_base::trc;
use lighthaul_base::{Instant, Trc};
use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::json::{Bps, Bytes, NewReservation, Reservation, Step, Timestamp};
use lighthaul_booking_client::zone::Zone;
use lighthaul_copy::watch::Summary;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_remote::scheduler::{failed, reach};
use lighthaul_session::error::{Code, Error, caught};

use crate::copy::endpoints::Endpoints;
use crate::copy::estimate::Estimate;
use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::retry::{self, sleep};
use crate::copy::vector;
use crate::event::{Booked, Event, Released, ReservationEnd};
use crate::fault::Fault;
use crate::request::Booking;

/// Makes the copy on a reserved circuit, whose packets enter at `interface`, if given.
pub(super) fn run(
    job: &Job,
    (booking, interface): (&Booking, Option<&str>),
    reporter: &mut Reporter<'_>,
) -> Result<Summary, Error> {
    let ends = Endpoints::of(job, booking)?;
    let estimate = Estimate::of(job, booking)?;
    if estimate.bytes == 0 {
        reporter.note("the target is up to date, so no capacity is reserved");
        return retry::run(job, reporter);
    }
    let flow = interface
        .map(|interface| ends.flow(interface))
        .transpose()?;
    let wanted = NewReservation {
        from: Some(ends.from),
        to: Some(ends.to),
        rate_max: job.request.rate.map(Bps::from),
        flow,
        ..NewReservation::default()
    };
    let mut circuit = Circuit::book(job, (wanted, booking.deadline), estimate)?;
    let mut early = None;
    // an observer that panics keeps no capacity
    let result = caught("copy", || {
        circuit.announce(reporter);
        circuit.wait(reporter)?;
        let (result, released) = circuit.carry(job, reporter);
        early = released;
        result
    });
    circuit.give_back(&result, early, reporter);
    result
}

/// Answer of the scheduler to a release before the copy has ended, and the time of the request by the clock of this
/// host.
type EarlyRelease = (Result<Reservation, ClientError>, u64);

/// Reservation, and the difference between the scheduler's clock and this host's.
struct Circuit {
    client: Client,
    reservation: Reservation,
    /// Nanoseconds that the scheduler's clock is ahead of this host's clock.
    ahead: i64,
    /// Possible error of `ahead`.
    error: Duration,
    /// Size and duration of the copy.
    estimate: Estimate,
    /// Time, by the clock of this host, before the last request whose answer is in `reservation`.
    asked_at: u64,
}

impl Circuit {
    /// Books the capacity that the copy needs. The scheduler promises the end of the circuit, and the copy the
    /// time when all files are there. The difference is taken off a deadline first.
    fn book(
        job: &Job,
        (wanted, deadline): (NewReservation, Option<Timestamp>),
        estimate: Estimate,
    ) -> Result<Self, Error> {
        let scheduler = job.settings.scheduler.as_ref();
        let client = reach(scheduler.ok_or(Fault::NoScheduler)?)?;
        let (ahead, error) = client.clock_offset().map_err(failed)?;
        let there = |nanos: u64| Timestamp(nanos.saturating_add_signed(ahead));
        let epilogue = estimate.epilogue();
        let by = deadline.map(|by| there(by.0.saturating_sub(nanos_of(epilogue))));
        let start = unix_nanos().saturating_add(nanos_of(estimate.lead() + THINK));
        let request = NewReservation {
            size: Some(Bytes(estimate.wire_bytes())),
            margin_percent: Some(estimate.margin_percent()),
            start: Some(there(start)),
            by,
            commit: true,
            ..wanted
        };
        let asked_at = unix_nanos();
        let reservation = client.reserve(&request).map_err(|failure| {
            let end = earliest_end(&failure).map(|end| here(end, ahead));
            let error = failed(failure);
            if by.is_none() || error.code() != Code::Refused {
                return error;
            }
            let deadline = end.map(|end| Timestamp(end.0.saturating_add(nanos_of(epilogue))));
            Fault::LateEnd {
                refused: error,
                epilogue: epilogue.as_secs_f64(),
                deadline: deadline.map(|by| Zone::LOCAL.word(by.second_after())),
            }
            .into()
        })?;
        Ok(Self {
            client,
            reservation,
            ahead,
            error: Duration::from_nanos(error),
            estimate,
            asked_at,
        })
    }

    /// Returns the time, by the scheduler's clock, when all files are in place, verified and synced.
    fn promise(&self) -> Timestamp {
        let epilogue = nanos_of(self.estimate.epilogue());
        Timestamp(self.reservation.promised_end.0.saturating_add(epilogue))
    }

    /// Converts a time of the scheduler to the clock of this host.
    const fn here(&self, at: Timestamp) -> Timestamp {
        here(at, self.ahead)
    }

    /// Returns the start of the first step by the clock of this host.
    fn start(&self) -> Timestamp {
        let first = self.reservation.steps.first();
        self.here(first.map_or(self.reservation.promised_end, |step| step.from))
    }

    /// Returns the steps, narrowed by the possible difference of both clocks.
    fn vector(&self) -> Result<Trc, Error> {
        let steps = &self.reservation.steps;
        let zero = steps.first().map_or(0, |step| step.from.0);
        let at = |moment: Timestamp| Instant::from_nanos(moment.0.saturating_sub(zero));
        let steps = steps.iter().map(|step| {
            // the device counts more than the packets of IP
            let rate = self
                .reservation
                .sending_rate(step)
                .ok_or("a step has no rate")?;
            let (from, till) = (at(step.from), at(step.till));
            Ok(trc::Step { from, till, rate })
        });
        let trc = steps
            .collect::<Result<_, &str>>()
            .and_then(|steps| Trc::new(steps).map_err(|_| "its steps overlap or are out of order"))
            .map_err(|why| self.useless(why))?;
        let sure = trc.narrowed(self.error);
        sure.ok_or_else(|| {
            self.useless("the clocks of both hosts differ by more than its shortest step")
        })
    }

    fn useless(&self, why: &str) -> Error {
        Fault::Reservation {
            id: self.reservation.id.to_string(),
            why: why.to_owned(),
        }
        .into()
    }

    fn announce(&self, reporter: &mut Reporter<'_>) {
        let promised_end = self.promise();
        reporter.tell(Event::Booked(Box::new(Booked {
            reservation: self.reservation.clone(),
            start: self.start(),
            complete_by: self.here(promised_end),
            promised_end,
        })));
    }

    /// Returns the time to connect, and before it the time of the last look at the reservation, which the scheduler no
    /// longer moves then.
    fn begin(&self) -> [u64; 2] {
        let (start, lead) = (self.start().0, self.estimate.lead());
        [lead, lead.max(SETTLED)].map(|before| start.saturating_sub(nanos_of(before)))
    }

    /// Waits until the copy has to connect. The scheduler may move a waiting reservation forward, so it is read again
    /// until shortly before its start. A scheduler that is away takes nothing back, and may come back until then.
    fn wait(&mut self, reporter: &mut Reporter<'_>) -> Result<(), Error> {
        let mut was_away = false;
        loop {
            let [connect_at, look_at] = self.begin();
            let now = unix_nanos();
            let until = |at: u64| Duration::from_nanos(at.saturating_sub(now));
            if self.asked_at >= look_at {
                return sleep(until(connect_at));
            }
            sleep(until(look_at).min(vector::LOOK))?;
            let before = self.start();
            match self.look() {
                Ok(()) => was_away = false,
                Err(why) if why.may_pass() => {
                    if !was_away {
                        reporter.warn(format!("{why}; asking again until the start"));
                    }
                    was_away = true;
                    if unix_nanos() >= connect_at {
                        return Ok(());
                    }
                    sleep(PAUSE)?;
                }
                Err(why) => return Err(failed(why)),
            }
            if self.reservation.state.is_final() {
                return Err(self.useless("it ended before its start"));
            }
            if self.start() != before {
                self.announce(reporter);
            }
        }
    }

    /// Reads the reservation again, and the scheduler's clock: since the last look, the clock of this host may have been
    /// set.
    fn look(&mut self) -> Result<(), ClientError> {
        let asked_at = unix_nanos();
        let (ahead, error) = self.client.clock_offset()?;
        self.reservation = self.client.reservation(self.reservation.id)?;
        (self.ahead, self.error) = (ahead, Duration::from_nanos(error));
        self.asked_at = asked_at;
        Ok(())
    }

    /// Copies at the rates of the vector, and releases the reservation as soon as all data have left the circuit.
    fn carry(
        &self,
        job: &Job,
        reporter: &mut Reporter<'_>,
    ) -> (Result<Summary, Error>, Option<EarlyRelease>) {
        match self.vector() {
            Ok(vector) => {
                let release = || {
                    let at = unix_nanos();
                    let why = "all data have left the circuit";
                    (self.client.release(self.reservation.id, why), at)
                };
                let course = (self.start(), &vector);
                vector::follow((job, reporter), course, release, || self.withdrawn())
            }
            Err(why) => {
                reporter.warn(format!("{why}: the copy continues without it"));
                (retry::run(&job.ordinary(), reporter), None)
            }
        }
    }

    /// Returns the reason if the reservation no longer has the capacity that the copy uses.
    fn withdrawn(&self) -> Option<String> {
        // a scheduler that is away takes nothing back
        let present = self.client.reservation(self.reservation.id).ok()?;
        let now = Timestamp(unix_nanos().saturating_add_signed(self.ahead));
        let id = self.reservation.id;
        if present.state.is_final() {
            return Some(format!("reservation {id} is {} already", present.state));
        }
        let steps = &self.reservation.steps;
        let is_kept = has_still(steps, &present.steps, now);
        (!is_kept).then(|| format!("reservation {id} was changed"))
    }

    /// Releases the remaining capacity, unless that was done before, and reports how early or late the copy ended.
    fn give_back(
        &self,
        result: &Result<Summary, Error>,
        before: Option<EarlyRelease>,
        reporter: &mut Reporter<'_>,
    ) {
        let promised = self.here(self.promise()).0;
        let early = (i128::from(promised) - i128::from(unix_nanos())) as f64 / 1e9;
        let id = self.reservation.id;
        let why = match result {
            Ok(_) => "the copy is done".to_owned(),
            Err(error) => format!("the copy failed: {error}"),
        };
        let release = || match self.client.release(id, &why) {
            // a reservation that has not begun is canceled instead
            Err(ClientError::Problem(_)) => self.client.cancel(id, &why),
            released => released,
        };
        let (released, at) = match before {
            Some((Ok(reservation), at)) => (Ok(reservation), at),
            Some((Err(_), _)) | None => (release(), unix_nanos()),
        };
        let end = self.here(self.reservation.promised_end).0;
        let unused = end.saturating_sub(at) as f64 / 1e9;
        let is_released = released.is_ok();
        let end = match released {
            Ok(_) => ReservationEnd::Released,
            // its last step has ended in the meantime
            Err(ClientError::Problem(_)) => ReservationEnd::Over,
            Err(why) => ReservationEnd::Kept(why.to_string()),
        };
        reporter.tell(Event::Released(Released {
            reservation: id,
            early_s: early,
            unused_s: is_released.then_some(unused),
            end,
        }));
    }
}

/// Returns true if the present steps of a reservation carry, from `now` on, what its earlier steps did.
fn has_still(earlier: &[Step], present: &[Step], now: Timestamp) -> bool {
    earlier.iter().filter(|step| step.till > now).all(|step| {
        let mut at = step.from.max(now);
        let carrying = present.iter().filter(|new| new.rate_bps >= step.rate_bps);
        for new in carrying {
            if new.from <= at {
                at = at.max(new.till);
            }
        }
        at >= step.till
    })
}

/// Converts a time of a scheduler, whose clock is `ahead` nanoseconds ahead, to the clock of this host.
const fn here(at: Timestamp, ahead: i64) -> Timestamp {
    Timestamp(at.0.saturating_add_signed(ahead.saturating_neg()))
}

/// Returns the earliest end that the scheduler offers.
fn earliest_end(failure: &ClientError) -> Option<Timestamp> {
    match failure {
        ClientError::Problem(problem) => problem.counter_offer.as_ref()?.earliest_end,
        ClientError::ClearText { .. }
        | ClientError::Untrusted { .. }
        | ClientError::Network { .. }
        | ClientError::Protocol { .. } => None,
    }
}

const fn nanos_of(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Time to book.
const THINK: Duration = Duration::from_millis(500);
/// The scheduler moves only reservations that begin in more than ten seconds. The time to connect is shorter, too.
const SETTLED: Duration = Duration::from_secs(8);
/// Pause before a scheduler that is away is asked again.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(of: &[(u64, u64, u64)]) -> Vec<Step> {
        let step = |&(from, till, rate_bps): &_| Step {
            from: Timestamp(from),
            till: Timestamp(till),
            rate_bps,
        };
        of.iter().map(step).collect()
    }

    #[test]
    fn capacity_that_was_taken_back_is_noticed() {
        let earlier = steps(&[(10, 20, 5), (20, 30, 7)]);
        for (present, now, has) in [
            (&[(10, 20, 5), (20, 30, 7)][..], 0, true),
            (&[(10, 20, 5), (20, 30, 7)], 25, true),
            // more of it
            (&[(0, 40, 9)], 15, true),
            (&[(10, 15, 5), (15, 20, 6), (20, 30, 7)], 0, true),
            // what is over does not count
            (&[(20, 30, 7)], 20, true),
            (&[], 30, true),
            // moved, slower, shorter, gone, with a gap
            (&[(15, 25, 5), (25, 35, 7)], 0, false),
            (&[(10, 20, 5), (20, 30, 6)], 0, false),
            (&[(10, 20, 5), (20, 29, 7)], 0, false),
            (&[], 29, false),
            (&[(10, 14, 5), (15, 20, 5), (20, 30, 7)], 0, false),
        ] {
            let found = has_still(&earlier, &steps(present), Timestamp(now));
            assert_eq!(found, has, "{present:?} at {now}");
        }
    }
}
