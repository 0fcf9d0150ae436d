//! Light path as the capacity of a scheduler's link, so that the scheduler books transfers on the path at varying
//! rates.
//!
//! ```text
//! open the link ... the path ends, fails, or is canceled by a signal ... close the link -> release the path
//! ```
//!
//! A service of the domain or a scheduler that is away for a moment changes nothing: both keep their promises.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::leased_link::{self, LeasedLink, patiently};
use lighthaul_domains::control::{self, Answer, ControlError, PathView, Problem, Question};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;
use lighthaul_remote::domain::ask;
use lighthaul_remote::scheduler::failed;
use lighthaul_session::error::Error;

use crate::error::Fault;

/// Offers a path to a scheduler until the path ends. A signal closes the link and releases the path. `socket` is that
/// of the service that has reserved the path. `say` shows what happens.
pub fn keep(
    socket: &Path,
    path: &PathView,
    (scheduler, name): (&Client, &str),
    say: impl Fn(&str),
) -> Result<(), Error> {
    interrupt::handle_signals().map_err(Fault::Start)?;
    let link = match find(path, (scheduler, name)) {
        Ok(link) => link,
        Err(why) => {
            release(socket, path, say).ok();
            return Err(why);
        }
    };
    let ended = match patiently(|| leased_link::open(scheduler, &link)) {
        Ok(()) => {
            let (start, end) = (link.start, link.end);
            say(&format!(
                "link {name} has the capacity of the path from {start} to {end}"
            ));
            wait(socket, path, link.end)
        }
        // the last answer was lost: the link may be open
        Err(why @ ClientError::Network { .. }) => Ending::Unknown(failed(why)),
        Err(why) => {
            release(socket, path, say).ok();
            return Err(failed(why));
        }
    };
    // what books transfers stops before its capacity is given up: if the link cannot be closed, the path stays
    let close = || leased_link::close(scheduler, Timestamp(unix_nanos()), &link);
    patiently(close).map_err(failed)?;
    say(&format!("link {name} is closed"));
    match ended {
        // a path that has failed or ended needs no release
        Ending::Over => Ok(()),
        Ending::Lost(why) => Err(Fault::PathLost(why).into()),
        Ending::Canceled => release(socket, path, say),
        Ending::Unknown(why) => {
            release(socket, path, say).ok();
            Err(why)
        }
    }
}

/// End of a wait for a path.
enum Ending {
    Over,
    Canceled,
    Lost(String),
    /// Error after which the link may be open or closed.
    Unknown(Error),
}

/// Returns the link and the time of the path, if the link has no capacity at other times.
fn find<'a>(
    path: &PathView,
    (scheduler, name): (&Client, &'a str),
) -> Result<LeasedLink<'a>, Error> {
    let rates = path.steps.iter().map(|step| step.rate_bps);
    let lowest = rates.min().and_then(Rate::from_bps);
    let (Some(first), Some(last), Some(rate)) = (path.steps.first(), path.steps.last(), lowest)
    else {
        return Err(Fault::PathLost("it has no rates".to_owned()).into());
    };
    let topology = scheduler.topology().map_err(failed)?;
    let link = topology.links.iter().find(|link| link.name == name);
    let capacity = link.and_then(|link| Rate::from_bps(link.capacity_bps));
    let capacity = capacity.ok_or_else(|| Fault::NoLink(name.to_owned()))?;
    if capacity > rate {
        let name = name.to_owned();
        return Err(Fault::WideLink {
            name,
            capacity,
            rate,
        }
        .into());
    }
    let link = LeasedLink {
        name,
        start: Timestamp(first.from.saturating_add(path.guard_ns)),
        end: Timestamp(last.till),
        why: "no light path",
    };
    let outages = scheduler.outages().map_err(failed)?;
    let mut of_link = outages.iter().filter(|outage| outage.link == name);
    if !of_link.any(|outage| link.end < outage.till) {
        return Err(Fault::OpenLink(name.to_owned()).into());
    }
    Ok(link)
}

/// Waits until the path ends or a signal comes.
fn wait(socket: &Path, path: &PathView, end: Timestamp) -> Ending {
    let find = Question::Find(path.id.to_string());
    let mut looks = 0;
    while unix_nanos() < end.0 {
        if interrupt::is_requested() {
            return Ending::Canceled;
        }
        pause(LOOK);
        looks += 1;
        if looks % LOOKS_EACH != 0 {
            continue;
        }
        match control::ask(socket, &find) {
            Ok(Answer::Path(found)) if !found.is_held() => return Ending::Lost(found.stage),
            Err(ControlError::Problem(Problem::NoPath(_) | Problem::UnknownPath(_))) => {
                return Ending::Lost("it is unknown".to_owned());
            }
            // a service that is away or busy keeps its promise
            Ok(_) | Err(_) => {}
        }
    }
    Ending::Over
}

fn release(socket: &Path, path: &PathView, say: impl Fn(&str)) -> Result<(), Error> {
    ask(socket, &Question::Release(path.id))?;
    say(&format!("path {} is released", path.id));
    Ok(())
}

/// Interval at which a signal is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// Number of intervals between two checks of the path.
const LOOKS_EACH: u32 = 10;
