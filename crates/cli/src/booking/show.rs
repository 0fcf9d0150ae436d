//! Output of reservations, quotes and lists, as text and as JSON.
//!
//! With `--json`, each object is one event in one line, with the fields `v` and `type`. Text shows
//! local times in whole seconds: begins are rounded down, ends up. Output escapes control
//! characters, since owners and reasons come from other users. Long reservations show their first
//! 20 steps only.

use lighthaul_base::counted;
use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_booking_client::json::{Quote, Reservation, Step, Timestamp};
use lighthaul_booking_client::zone::Zone;
use lighthaul_grammar::output::OutputArgs;
use lighthaul_timeline::label::rate;
use serde::Serialize;
use serde_json::{Value, json};

use crate::output::print::{print, print_json};

/// Prints all fields of a reservation.
pub(crate) fn reservation(reservation: &Reservation, output: OutputArgs) {
    if output.json {
        return event("reservation", reservation);
    }
    done(reservation, output);
    let request = &reservation.request;
    if let (Some(from), Some(to)) = (&request.from, &request.to) {
        tell(&format!(
            "  from {from} to {to} over {}",
            reservation.path.join(", ")
        ));
    } else {
        tell(&format!("  over {}", reservation.path.join(", ")));
    }
    steps(&reservation.steps);
    if let Some(till) = reservation.hold_till {
        let id = reservation.id;
        tell(&format!(
            "  held until {}; commit it with `lighthaul book --commit {id}`",
            shown(till)
        ));
    }
    for line in &reservation.journal {
        let to = line.to.to_string();
        let what = if line.from == line.to {
            line.verb.participle()
        } else {
            &to
        };
        let why = if line.why.is_empty() { "" } else { ": " };
        tell(&format!(
            "  {}  {what} by {}{why}{}",
            shown(line.at),
            line.who,
            line.why
        ));
    }
}

/// Prints a reservation after a change.
pub(crate) fn done(reservation: &Reservation, output: OutputArgs) {
    if output.json {
        return event("reservation", reservation);
    }
    let Reservation {
        id, owner, state, ..
    } = reservation;
    let what = match &reservation.failure {
        Some(why) => format!(": {why}"),
        None if state.is_final() => String::new(),
        None => format!(", ends by {}", shown_end(reservation.promised_end)),
    };
    tell(&format!("reservation {id} of {owner} is {state}{what}"));
}

/// Prints a quote.
pub(crate) fn quote(quote: &Quote, output: OutputArgs) {
    if output.json {
        return event("quote", quote);
    }
    tell(&format!(
        "it would end by {}",
        shown_end(quote.promised_end)
    ));
    tell(&format!("  over {}", quote.path.join(", ")));
    steps(&quote.steps);
}

/// Prints a page of a list, one line for each reservation. The `first` page has a heading.
pub(crate) fn list(reservations: &[Reservation], first: bool, output: OutputArgs) {
    if output.json {
        for reservation in reservations {
            event("reservation", reservation);
        }
        return;
    }
    if first && reservations.is_empty() {
        return tell("no reservations match");
    }
    if first {
        print(&row([
            "id", "state", "owner", "begins", "ends by", "at most", "links",
        ]));
    }
    for reservation in reservations {
        let begins = reservation
            .steps
            .first()
            .map_or_else(|| "-".to_owned(), |step| shown(step.from));
        let most = reservation.steps.iter().map(|step| step.rate_bps).max();
        let columns = [
            &reservation.id.to_string(),
            &reservation.state.to_string(),
            &reservation.owner,
            &begins,
            &shown_end(reservation.promised_end),
            &most.map_or_else(|| "-".to_owned(), rate),
            &reservation.path.join(", "),
        ];
        tell(&row(columns.map(String::as_str)));
    }
}

/// Returns a local time, without fractions of the second.
fn shown(at: Timestamp) -> String {
    Zone::LOCAL.shown(at)
}

/// Returns the local time of an end, rounded up to the next whole second.
fn shown_end(at: Timestamp) -> String {
    shown(at.second_after())
}

fn row(columns: [&str; 7]) -> String {
    let [id, state, owner, begins, end, most, path] = columns;
    format!("{id:>6}  {state:<11}  {owner:<16}  {begins:<26}  {end:<26}  {most:>10}  {path}")
}

fn steps(steps: &[Step]) {
    for step in steps.iter().take(STEPS_SHOWN) {
        tell(&format!(
            "  {} - {}  {:>10}",
            shown(step.from),
            shown_end(step.till),
            rate(step.rate_bps)
        ));
    }
    if let Some(more @ 1..) = steps.len().checked_sub(STEPS_SHOWN) {
        let more = counted(more as u64, "more step", "more steps");
        tell(&format!("  and {more}; --json has all"));
    }
}

/// Prints a JSON object as an event of the given type.
pub(crate) fn event(kind: &str, what: &impl Serialize) {
    let mut event = serde_json::to_value(what).unwrap_or(Value::Null);
    event["v"] = json!(1);
    event["type"] = json!(kind);
    print_json(&event);
}

/// Prints a line. Text of others in it is escaped, so it cannot control the terminal.
fn tell(text: &str) {
    print(&escape(text, LINE_MAX));
}

const STEPS_SHOWN: usize = 20;
