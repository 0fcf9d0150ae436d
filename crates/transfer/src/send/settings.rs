//! How to send.

use std::time::Duration;

use lighthaul_base::trc::TrcError;
use lighthaul_base::{Instant, Rate, Timetable, Trc};
use lighthaul_files::options::Options;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::protocol::{self, Protocol};

use crate::budget::Budget;
use crate::vector;

/// How to send.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Datagrams are not encrypted.
    pub plain: bool,
    /// The rate on the wire; measured if nobody says.
    pub rate: Option<Rate>,
    /// When that is limited, and how.
    pub limit: Option<Timetable>,
    /// How to copy.
    pub options: Options,
    /// When they were said, by the session's clock.
    pub said: Instant,
    /// The names of the protocols that the peer has.
    pub theirs: Vec<String>,
    /// Limits of its memory and open files.
    pub budget: Budget,
}

impl Settings {
    /// What is to move the data, which both sides have; nothing if the path is to decide.
    pub(super) fn asked(&self) -> Result<Option<Protocol>, Error> {
        let Some(asked) = protocol::asked(&self.options.protocol)? else {
            return Ok(None);
        };
        if self.theirs.iter().any(|name| name == asked.name()) {
            return Ok(Some(asked));
        }
        let theirs = self.theirs.join(", ");
        let text = format!("the far side has no protocol {asked}, but {theirs}");
        Err(Error::new(Code::Protocol, text))
    }

    /// What a circuit carries when, which only a protocol that follows it needs, and which it does need.
    pub(super) fn vector(&self) -> Result<Option<Trc>, Error> {
        let text = &self.options.trc;
        let asked = protocol::asked(&self.options.protocol)?;
        match (asked, text.is_empty()) {
            (Some(Protocol::Vbtp), true) => {
                Err(misuse("vbtp follows a circuit's vector: say it with --trc"))
            }
            (_, true) => Ok(None),
            // who leaves it open gets what follows the vector
            (None | Some(Protocol::Vbtp), false) => vector::parse("--trc", text).map(Some),
            (Some(_), false) => Err(misuse("only vbtp follows a vector: leave --trc out")),
        }
    }

    /// The vector by the session's clock, where data begin to move at `started`.
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
    Error::new(Code::Usage, text)
}
