//! How to send what a caller wants.

use lighthaul_base::{Instant, Rate, Timetable};
use lighthaul_transfer::budget::Budget;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::message::Hello;
use lighthaul_transfer::send;
use lighthaul_transfer::session::Session;

/// How to send what somebody wants.
pub(crate) fn sending(
    session: &Session,
    hello: Hello,
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
        options: hello.options,
        said: Instant::ZERO + session.clock.now().since(Instant::ZERO + session.rtt / 2),
        theirs: hello.protocols,
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
