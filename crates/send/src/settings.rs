//! Settings of the sending side.

use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::trc::TrcError;
use lighthaul_base::{Instant, Rate, Timetable, Trc};
use lighthaul_copy::budget::Budget;
use lighthaul_copy::error::Fault;
use lighthaul_files::options::Options;
use lighthaul_io::host::clock::week_time;
use lighthaul_session::error::Error;
use lighthaul_session::known_path::PathMemory;
use lighthaul_session::protocol::{self, Protocol};
use lighthaul_session::vector;

/// Settings of the sending side.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// True if datagrams are not encrypted.
    pub plain: bool,
    /// Rate on the wire; none to measure the path.
    pub rate: Option<Rate>,
    /// Times with a rate limit.
    pub limit: Option<Timetable>,
    /// Options of the copy.
    pub options: Options,
    /// Time of the request, by the session's clock.
    pub said: Instant,
    /// Limits of memory and open files.
    pub budget: Budget,
    /// Paths that earlier copies have measured.
    pub known: Option<Arc<dyn PathMemory>>,
}

impl Settings {
    /// Returns the protocol that the user selected; none for an automatic choice.
    pub(super) fn asked(&self) -> Result<Option<Protocol>, Error> {
        protocol::asked(&self.options.protocol)
    }

    /// Returns the rate within the current limit of the timetable.
    pub(super) fn limited(&self, rate: Rate) -> Rate {
        let limit = self.limit.as_ref();
        let limit = limit.and_then(|limit| limit.rate_at(week_time()));
        limit.map_or(rate, |limit| rate.min(limit))
    }

    /// Returns the vector of the circuit. VBTP requires one, and other protocols must not have one.
    pub(super) fn vector(&self) -> Result<Option<Trc>, Error> {
        let text = &self.options.trc;
        let asked = protocol::asked(&self.options.protocol)?;
        match (asked, text.is_empty()) {
            (Some(Protocol::Vbtp), true) => Err(misuse(
                "vbtp needs the vector of a circuit; give it with --trc",
            )),
            (_, true) => Ok(None),
            // without a selection, the protocol for a circuit is chosen
            (None | Some(Protocol::Vbtp), false) => vector::parse("--trc", text).map(Some),
            (Some(_), false) => Err(misuse("only vbtp follows a vector; omit --trc")),
        }
    }

    /// Returns the vector by the session's clock. `started` is the time at which the data begin.
    pub(super) fn vector_at(&self, started: Instant) -> Result<Option<Trc>, Error> {
        let Some(trc) = self.vector()? else {
            return Ok(None);
        };
        let said = i128::from(self.said.as_nanos());
        let zero = match self.options.trc_in {
            None => i128::from(started.as_nanos()),
            Some(nanos) => said + i128::from(nanos),
        };
        let by = Duration::from_nanos(u64::try_from(zero.unsigned_abs()).unwrap_or(u64::MAX));
        let trc = if zero < 0 {
            trc.advanced(by).ok_or(TrcError::Past)
        } else {
            trc.shifted(by)
        };
        let trc = trc.and_then(|trc| trc.check_ahead(started).map(|()| trc));
        trc.map(Some)
            .map_err(|why| misuse(&format!("--trc: {why}")))
    }
}

fn misuse(text: &str) -> Error {
    Fault::Vector(text.to_owned()).into()
}
