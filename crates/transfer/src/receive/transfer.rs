//! State of a copy on the receiving side, for its threads.

use std::sync::Arc;

use lighthaul_files::options::Options;
use lighthaul_io::control::Stream;
use lighthaul_session::error::Error;
use lighthaul_session::session::Session;

use super::cradle::Cradle;
use super::ledger::Ledger;
use super::settings::Settings;
use crate::board::Board;
use crate::crew::Crew;
use crate::message::LIST;

/// State that the threads of a receiver share.
pub(super) struct Transfer<'a> {
    pub(super) session: &'a Session,
    /// Stream of the list of entries.
    pub(super) stream: Stream,
    pub(super) crew: Arc<Crew>,
    pub(super) ledger: Ledger,
    pub(super) board: Board,
    pub(super) cradle: Cradle,
    /// Start of the host that written bytes do not survive; see [`super::journal::Subject`].
    pub(super) boot: u64,
    pub(super) settings: Settings,
}

impl<'a> Transfer<'a> {
    /// Creates the state of a new copy.
    pub(super) fn new(session: &'a Session, settings: Settings) -> Result<Self, Error> {
        Ok(Self {
            session,
            stream: session.control.open(LIST)?,
            crew: Arc::default(),
            ledger: Ledger::default(),
            board: Board::default(),
            cradle: Cradle::new(&settings.options)?,
            boot: settings.boot(),
            settings,
        })
    }

    /// Returns the options of the copy.
    pub(super) const fn options(&self) -> &Options {
        &self.settings.options
    }
}
