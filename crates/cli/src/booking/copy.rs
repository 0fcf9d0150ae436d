//! Copies on circuits that are booked for them: asks, waits, keeps to what was granted, and gives back what is left.

use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_booking::client::{Client, Failure};
use lighthaul_booking::word::{Bps, Bytes, Moment, NewReservation, Reservation};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::protocol::Protocol;
use lighthaul_transfer::watch::Summary;
use serde_json::json;

use super::args::Asking;
use super::ends::Ends;
use super::reach::{failed, reach};
use super::rehearsal::Rehearsal;
use super::time::{Time, shown};
use crate::args::Cp;
use crate::files::args::Output;
use crate::later::{self, sleep};
use crate::print::Printer;

/// What a copy is, once it is known what moves it.
pub(super) type Copy = fn(&Cp, &mut Printer) -> Result<Summary, Error>;

/// Runs `copy`, on a circuit of its own if one is asked for.
pub(crate) fn run(args: &Cp, printer: &mut Printer, copy: Copy) -> Result<Summary, Error> {
    if !args.booked.book || args.choice.dry_run.is_some() {
        return later::run(args, printer, copy);
    }
    args.choice.confirm(&args.paths)?;
    let mut args = args.clone();
    args.choice.yes = true;
    let ends = Ends::of(&args)?;
    let rehearsal = Rehearsal::of(&args, &ends.sources, &ends.target, copy)?;
    if rehearsal.bytes == 0 {
        printer.note("lighthaul: there is nothing to send, so nothing is booked");
        return later::run(&args, printer, copy);
    }
    let mut circuit = Circuit::book(&args, &ends, rehearsal)?;
    circuit.announce(printer);
    let result = circuit
        .wait(printer)
        .and_then(|()| circuit.carry(&args, printer, copy));
    circuit.give_back(&result, printer);
    result
}

/// Which scheduler is asked.
fn asking(args: &Cp) -> Asking {
    Asking {
        at: args.booked.at.clone(),
        token_file: args.booked.scheduler_token.clone(),
        pin: None,
        output: Output { json: args.json },
    }
}

/// A reservation, and how its clock differs from ours.
struct Circuit {
    client: Client,
    reservation: Reservation,
    /// By how many nanoseconds the scheduler's clock is ahead.
    ahead: i64,
    /// How far that may be off.
    error: Duration,
    /// What is known of the copy that it is for.
    rehearsal: Rehearsal,
}

impl Circuit {
    /// Asks for what the copy needs. The scheduler promises when the circuit is over, and the copy when all is there: what
    /// comes behind the circuit is taken off a deadline first.
    fn book(args: &Cp, ends: &Ends, rehearsal: Rehearsal) -> Result<Self, Error> {
        let client = reach(&asking(args))?;
        let (ahead, error) = client.clock_offset().map_err(failed)?;
        let there = |nanos: u64| Moment(nanos.saturating_add_signed(ahead));
        let epilogue = rehearsal.epilogue();
        let by = args.later.deadline;
        let by = by.map(|Time(by)| there(by.0.saturating_sub(nanos_of(epilogue))));
        let start = unix_nanos().saturating_add(nanos_of(rehearsal.lead() + THINK));
        let circuit = args.booked.circuit.as_deref();
        let flow = circuit.map(|interface| ends.flow(interface)).transpose()?;
        let bytes = rehearsal.bytes;
        let request = NewReservation {
            from: Some(ends.from.clone()),
            to: Some(ends.to.clone()),
            size: Some(Bytes(bytes.saturating_add(bytes / HEADS).max(1))),
            margin_percent: Some(MARGIN),
            rate_max: args.rate.map(Bps::from),
            start: Some(there(start)),
            by,
            flow,
            commit: true,
            ..NewReservation::default()
        };
        let reservation = client.reserve(&request).map_err(|failure| {
            let mut error = failed(failure);
            if by.is_some() && error.code == Code::Refused {
                let epilogue = epilogue.as_secs_f64();
                error.text = format!(
                    "{} (the copy itself is done {epilogue:.1} s later, when all is checked and synced)",
                    error.text
                );
            }
            error
        })?;
        Ok(Self {
            client,
            reservation,
            ahead,
            error: Duration::from_nanos(error),
            rehearsal,
        })
    }

    /// When all is there, checked and synced, by the scheduler's clock.
    fn promise(&self) -> Moment {
        let epilogue = nanos_of(self.rehearsal.epilogue());
        Moment(self.reservation.promised_end.0.saturating_add(epilogue))
    }

    /// A moment of the scheduler's, by the clock of this host.
    const fn here(&self, at: Moment) -> Moment {
        Moment(at.0.saturating_add_signed(self.ahead.saturating_neg()))
    }

    /// When the first step begins, by the clock of this host.
    fn start(&self) -> Moment {
        let first = self.reservation.steps.first();
        self.here(first.map_or(self.reservation.promised_end, |step| step.from))
    }

    /// The steps from the first one on, as far as both clocks are sure of them.
    fn vector(&self) -> Result<Trc, Error> {
        let steps = &self.reservation.steps;
        let zero = steps.first().map_or(0, |step| step.from.0);
        let at = |moment: Moment| Instant::from_nanos(moment.0.saturating_sub(zero));
        let steps = steps.iter().map(|step| {
            let rate = Rate::from_bps(step.rate_bps).ok_or("a step has no rate")?;
            let (from, till) = (at(step.from), at(step.till));
            Ok(Step { from, till, rate })
        });
        let trc = steps
            .collect::<Result<_, &str>>()
            .and_then(|steps| Trc::new(steps).map_err(|_| "its steps are no vector"))
            .map_err(|why| self.useless(why))?;
        let sure = trc.narrowed(self.error);
        sure.ok_or_else(|| self.useless("both clocks are too far apart for so short a time"))
    }

    fn useless(&self, why: &str) -> Error {
        let text = format!("reservation {} is of no use: {why}", self.reservation.id);
        Error::new(Code::Protocol, text)
    }

    fn announce(&self, printer: &mut Printer) {
        let Reservation { id, path, .. } = &self.reservation;
        let promised_end = self.promise();
        let text = format!(
            "reservation {id} is ours over {}, from {}; all will be there by {}",
            path.join(", "),
            shown(self.start()),
            shown(self.here(promised_end)),
        );
        let event = json!({
            "type": "booked", "reservation": id, "path": path, "steps": self.reservation.steps,
            "promised_end": promised_end,
        });
        printer.tell(event, &text);
    }

    /// Waits until it is time to call the far side. What waits may be moved forward when others leave something, so it
    /// is looked at again until it is too near for that.
    fn wait(&mut self, printer: &mut Printer) -> Result<(), Error> {
        loop {
            let lead = nanos_of(self.rehearsal.lead());
            let call_at = self.start().0.saturating_sub(lead);
            let left = Duration::from_nanos(call_at.saturating_sub(unix_nanos()));
            let Some(unsettled) = left.checked_sub(SETTLED) else {
                return sleep(left);
            };
            sleep(unsettled.min(LOOK))?;
            let before = self.start();
            let reservation = self.client.reservation(self.reservation.id);
            self.reservation = reservation.map_err(failed)?;
            if self.reservation.state.is_final() {
                return Err(self.useless("it is over before it has begun"));
            }
            if self.start() != before {
                self.announce(printer);
            }
        }
    }

    /// Copies as the vector has it; what has to be tried again when it is over crosses as it would without one.
    fn carry(&self, args: &Cp, printer: &mut Printer, copy: Copy) -> Result<Summary, Error> {
        let ordinary = Cp {
            protocol: Some(Protocol::Tcp.to_string()),
            ..args.clone()
        };
        let (start, vector) = match (self.start(), self.vector()) {
            (start, Ok(vector)) => (start, vector),
            (_, Err(why)) => {
                printer.warn(&format!("{why}: the copy goes on without"));
                return later::run(&ordinary, printer, copy);
            }
        };
        let end = start.0.saturating_add(vector.end().as_nanos());
        let booked = Cp {
            trc: Some(vector.to_string()),
            vector_at: Some(start),
            protocol: Some(Protocol::Vbtp.to_string()),
            ..args.clone()
        };
        later::run(args, printer, |_, printer| {
            let is_over = unix_nanos().saturating_add(nanos_of(CALL)) >= end;
            copy(if is_over { &ordinary } else { &booked }, printer)
        })
    }

    /// Leaves to others what is left, and says how it went by the plan.
    fn give_back(&mut self, result: &Result<Summary, Error>, printer: &mut Printer) {
        let promised = self.here(self.promise()).0;
        let early = (i128::from(promised) - i128::from(unix_nanos())) as f64 / 1e9;
        let id = self.reservation.id;
        let why = match result {
            Ok(_) => "the copy is done".to_owned(),
            Err(error) => format!("the copy failed: {error}"),
        };
        let released = match self.client.release(id, &why) {
            // what has not begun is called off instead
            Err(Failure::Problem(_)) => self.client.cancel(id, &why),
            released => released,
        };
        let plan = if early >= 0.0 {
            format!("{early:.1} s before the time promised")
        } else {
            format!("{:.1} s after the time promised", -early)
        };
        let text = match released {
            Ok(_) => format!("reservation {id} was given back {plan}"),
            // its last step has ended meanwhile
            Err(Failure::Problem(_)) => format!("reservation {id} was over; the copy was, {plan}"),
            Err(why) => format!("reservation {id} could not be given back {plan}: {why}"),
        };
        printer.tell(
            json!({"type": "released", "reservation": id, "early_s": early}),
            &text,
        );
    }
}

const fn nanos_of(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// How long it may take to book, and until a copy that is tried again moves anything.
const THINK: Duration = Duration::from_millis(500);
const CALL: Duration = Duration::from_secs(1);
/// The scheduler moves nothing that begins sooner than in ten seconds.
const SETTLED: Duration = Duration::from_secs(8);
/// How often a reservation is looked at again.
const LOOK: Duration = Duration::from_secs(4);
/// The part of the bytes that headers add at most, where the path carries packets of 1500 bytes: one in so many.
const HEADS: u64 = 20;
/// What is booked beyond that for losses and the last answers, in hundredths.
const MARGIN: u8 = 5;
