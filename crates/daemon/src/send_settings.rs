//! Settings of a sender, from the request of a client.

use lighthaul_base::{Instant, ParseTimetableError, Rate, Timetable};
use lighthaul_copy::budget::Budget;
use lighthaul_files::options::Options;
use lighthaul_send as send;
use lighthaul_session::error::Error;
use lighthaul_session::message::Hello;
use lighthaul_session::session::Session;

use crate::error::Fault;

/// Returns the settings of a sender for the request of a client.
pub(crate) fn send_settings(
    session: &Session,
    (hello, options): (&Hello, Options),
    budget: Budget,
) -> Result<send::Settings, Error> {
    let rate = match hello.rate_bps {
        Some(bps) => Some(Rate::from_bps(bps).ok_or(Fault::ZeroRate)?),
        None => None,
    };
    Ok(send::Settings {
        plain: hello.plain,
        rate,
        limit: limit(&hello.limit)?,
        options,
        said: Instant::ZERO + session.clock.now().since(Instant::ZERO + session.rtt / 2),
        budget,
        known: None,
    })
}

/// Parses the timetable of a rate limit; an empty text is none.
fn limit(text: &str) -> Result<Option<Timetable>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let timetable = text
        .parse()
        .map_err(|why: ParseTimetableError| Fault::Timetable {
            text: text.to_owned(),
            why: why.to_string(),
        })?;
    Ok(Some(timetable))
}
