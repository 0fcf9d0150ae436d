//! How to send what a caller wants.

use lighthaul_base::{Instant, Rate, Timetable};
use lighthaul_files::options::Options;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::Hello;
use lighthaul_session::session::Session;
use lighthaul_transfer::budget::Budget;
use lighthaul_transfer::send;

/// Settings of a sender, as a caller asked for them.
pub(crate) fn send_settings(
    session: &Session,
    (hello, options): (&Hello, Options),
    budget: Budget,
) -> Result<send::Settings, Error> {
    let rate = match hello.rate_bps {
        Some(bps) => Some(
            Rate::from_bps(bps)
                .ok_or_else(|| Error::new(Code::Usage, "a rate of zero sends nothing"))?,
        ),
        None => None,
    };
    Ok(send::Settings {
        plain: hello.plain,
        rate,
        limit: limit(&hello.limit)?,
        options,
        said: Instant::ZERO + session.clock.now().since(Instant::ZERO + session.rtt / 2),
        theirs: hello.protocols.clone(),
        budget,
    })
}

/// The timetable that somebody wrote, if any.
fn limit(text: &str) -> Result<Option<Timetable>, Error> {
    let unknown = |error| Error::new(Code::Usage, format!("{text}: {error}"));
    (!text.is_empty())
        .then(|| text.parse().map_err(unknown))
        .transpose()
}
