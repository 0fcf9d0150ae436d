//! Copies on a path across domains, which the service of this host's domain reserves.
//!
//! ```text
//! request -> wait for the start -> connect -> copy at the rates of the path -> release
//! ```
//!
//! Before its start a path may carry no packet at all. So the size comes from the files here, and the
//! copy connects after the start. The path is longer by that time, and by that of the last answers. The
//! copy uses four fifths of each rate: devices count headers, and control needs some of it.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_copy::watch::Summary;
use lighthaul_domains::Handle;
use lighthaul_domains::control::{PathId, PathRequest, PathView, Question};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_remote::domain::ask;
use lighthaul_remote::paths;
use lighthaul_session::error::{Error, caught};

use crate::copy::endpoints::Endpoints;
use crate::copy::estimate::here;
use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::retry::{self, sleep};
use crate::copy::vector;
use crate::event::Event;
use crate::fault::Fault;
use crate::request::Booking;

/// Makes the copy on a path that the service at `socket` reserves for it.
pub(super) fn run(
    job: &Job,
    (booking, socket): (&Booking, Option<&Path>),
    reporter: &mut Reporter<'_>,
) -> Result<Summary, Error> {
    let ends = Endpoints::of(job, booking)?;
    let bytes = match booking.size {
        Some(size) => size.0,
        None => here(job)?.ok_or(Fault::PathSize)?,
    };
    if bytes == 0 {
        reporter.note("there is nothing to copy, so no path is reserved");
        return retry::run(job, reporter);
    }
    let socket = socket.map_or_else(paths::domain_socket, Path::to_owned);
    let path = reserve((job, booking), &ends, bytes, &socket)?;
    let release = || ask(&socket, &Question::Release(path.id));
    let mut early = None;
    // an observer that panics keeps no capacity
    let result = caught("copy", || {
        let withdrawn = || is_withdrawn(&path, &socket);
        let (result, released) = carry(&path, (job, reporter), release, withdrawn);
        early = released;
        result
    });
    report(path.id, early.unwrap_or_else(release), reporter);
    result
}

/// Reserves a path that carries the bytes, with time to connect and to end.
fn reserve(
    (job, booking): (&Job, &Booking),
    ends: &Endpoints,
    bytes: u64,
    socket: &Path,
) -> Result<PathView, Error> {
    let needed = bytes.saturating_add(bytes / PART);
    let mut lost = job.request.rate.map_or(0, |rate| rate.bytes_in(SPARE));
    let mut tries = TRIES;
    loop {
        let question = Question::Path(request((job, booking), ends, needed.saturating_add(lost)));
        let path = ask(socket, &question)?;
        let lost_now = bytes_before(&path, SPARE);
        tries -= 1;
        if lost_now <= lost || tries == 0 {
            return Ok(path);
        }
        ask(socket, &Question::Release(path.id))?;
        lost = lost_now;
    }
}

fn request((job, booking): (&Job, &Booking), ends: &Endpoints, bytes: u64) -> PathRequest {
    let now = unix_nanos();
    let latest = now.saturating_add(WINDOW.as_nanos() as u64);
    PathRequest {
        id: PathId(Handle::new_id()),
        from: ends.from.clone(),
        to: ends.to.clone(),
        bytes,
        rate_max_bps: job.request.rate.map(Rate::as_bps),
        rate_min_bps: None,
        earliest: now,
        latest: booking.deadline.map_or(latest, |by| by.0),
        exclude_domains: Vec::new(),
        exclude_links: Vec::new(),
        protect: false,
        tree: false,
    }
}

/// Returns the bytes that a path carries in the first `time` of its reservation.
fn bytes_before(path: &PathView, time: Duration) -> u64 {
    let start = path.steps.first().map_or(0, |step| step.from);
    let till = start.saturating_add(time.as_nanos() as u64);
    let bytes = path.steps.iter().map(|step| {
        let nanos = step.till.min(till).saturating_sub(step.from);
        let rate = Rate::from_bps(step.rate_bps);
        rate.map_or(0, |rate| rate.bytes_in(Duration::from_nanos(nanos)))
    });
    bytes.sum()
}

/// Returns the reason if the path has no capacity any more. A service that is away takes nothing back.
fn is_withdrawn(path: &PathView, socket: &Path) -> Option<String> {
    let present = ask(socket, &Question::Find(path.id.to_string())).ok()?;
    let is_gone = present.steps.is_empty();
    is_gone.then(|| format!("path {} is {} already", path.id, present.stage))
}

/// Waits for the start of a path, copies at its rates, and calls `release` when all data have left it. Leaves the path
/// once `withdrawn` returns a reason.
fn carry<T: Send>(
    path: &PathView,
    (job, reporter): (&Job, &mut Reporter<'_>),
    release: impl FnOnce() -> T + Send,
    withdrawn: impl Fn() -> Option<String> + Send,
) -> (Result<Summary, Error>, Option<T>) {
    let start = Timestamp(path.steps.first().map_or(0, |step| step.from));
    match wait(path, start, reporter) {
        Ok(vector) => {
            let course = (start, &vector);
            vector::follow((job, reporter), course, release, withdrawn)
        }
        Err(error) => (Err(error), None),
    }
}

/// Waits for the start of a path. Returns the rates that a copy uses.
fn wait(path: &PathView, start: Timestamp, reporter: &mut Reporter<'_>) -> Result<Trc, Error> {
    reporter.tell(Event::PathReserved(path.clone()));
    let left = Duration::from_nanos(start.0.saturating_sub(unix_nanos()));
    sleep(left + guard(path) + SETTLE)?;
    rates(path).ok_or_else(|| {
        let why = "its steps are too short".to_owned();
        let id = path.id.to_string();
        Fault::Reservation { id, why }.into()
    })
}

/// Returns the time in which an increase of the path carries nothing.
fn guard(path: &PathView) -> Duration {
    Duration::from_nanos(path.guard_ns)
}

/// Returns the rates that a copy uses: four fifths of each, away from the changes, and an increase after its guard
/// time.
fn rates(path: &PathView) -> Option<Trc> {
    let zero = path.steps.first()?.from;
    let at = |nanos: u64| Instant::from_nanos(nanos - zero);
    let steps = path.steps.iter().map(|step| {
        Some(Step {
            from: at(step.from),
            till: at(step.till),
            rate: Rate::from_bps(step.rate_bps / 5 * 4)?,
        })
    });
    let steps: Option<Vec<Step>> = steps.collect();
    let carried = Trc::new(steps?).ok()?.settled(guard(path))?;
    carried.narrowed(SETTLE)
}

fn report(id: PathId, released: Result<PathView, Error>, reporter: &mut Reporter<'_>) {
    match released {
        Ok(path) => reporter.tell(Event::PathReleased(path)),
        // its time has passed, or a domain has given it up
        Err(why) => reporter.note(&format!("path {id} is not released: {}", why.text())),
    }
}

/// Divisor of the bytes that are added: the copy uses four fifths of the rates, and resends a few packets.
const PART: u64 = 3;
/// Time to connect after the start of a path, and for the last answers and writes at its end. What is left is released.
const SPARE: Duration = Duration::from_secs(6);
/// Time for clocks that differ, around each change of a rate.
const SETTLE: Duration = Duration::from_millis(200);
/// Maximum number of requests for a copy.
const TRIES: u32 = 3;
/// Default time from now to the latest end: the usual horizon of neighbors.
const WINDOW: Duration = Duration::from_hours(24 * 30);

#[cfg(test)]
mod tests {
    use lighthaul_domains::control::StepView;

    use super::*;

    #[test]
    fn copy_uses_an_increased_rate_after_the_guard_time_of_the_path() {
        let step = |from: u64, till: u64, mbps: u64| StepView {
            from: (50 + from) * 1_000_000_000,
            till: (50 + till) * 1_000_000_000,
            rate_bps: mbps * 1_000_000,
        };
        let path = |guard_ns| PathView {
            id: PathId(Handle::new_id()),
            source: 1,
            attempt: 0,
            stage: "committed".to_owned(),
            legs: Vec::new(),
            steps: vec![step(0, 10, 10), step(10, 20, 30), step(20, 40, 20)],
            lost: None,
            now: None,
            guard_ns,
        };
        let rates_at = |guard_ns, millis: &[u64]| -> Vec<u64> {
            let trc = rates(&path(guard_ns)).unwrap();
            let at = |millis: &u64| Instant::ZERO + Duration::from_millis(*millis);
            let rate = |millis| trc.rate_at(at(millis)).map_or(0, Rate::as_bps) / 1_000_000;
            millis.iter().map(rate).collect()
        };
        let near = [
            9_900, 10_100, 10_300, 13_100, 13_300, 19_900, 20_100, 39_700, 39_900,
        ];
        assert_eq!(rates_at(0, &near), [8, 8, 24, 24, 24, 16, 16, 16, 0]);
        let guard = 3_000_000_000;
        assert_eq!(rates_at(guard, &near), [8, 8, 8, 8, 24, 16, 16, 16, 0]);
        assert_eq!(super::guard(&path(guard)), Duration::from_secs(3));
    }
}
