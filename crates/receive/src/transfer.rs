//! State of a copy on the receiving side, shared by its threads.

use std::sync::{Arc, OnceLock};

use lighthaul_base::Instant;
use lighthaul_copy::message::LIST;
use lighthaul_copy::monitor::Monitor;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_files::options::Options;
use lighthaul_files::temp_place::TempPlace;
use lighthaul_io::control::Stream;
use lighthaul_session::error::Error;
use lighthaul_session::session::Session;

use super::claims::Claims;
use super::entry_table::EntryTable;
use super::settings::Settings;

/// State that the threads of a receiver share.
pub(super) struct Transfer<'a> {
    pub(super) session: &'a Session,
    /// Stream of the list of entries.
    pub(super) stream: Stream,
    pub(super) threads: Arc<ThreadGroup>,
    pub(super) table: EntryTable,
    pub(super) monitor: Monitor,
    pub(super) temp_place: TempPlace,
    pub(super) claims: Arc<Claims>,
    /// Start of the host that written bytes do not survive; see [`super::journal::Subject`].
    pub(super) boot: u64,
    pub(super) settings: Settings,
    /// Time at which the lanes started.
    pub(super) started: OnceLock<Instant>,
}

impl<'a> Transfer<'a> {
    /// Creates the state of a new copy.
    pub(super) fn new(session: &'a Session, settings: Settings) -> Result<Self, Error> {
        Ok(Self {
            session,
            stream: session.control.open(LIST)?,
            threads: Arc::default(),
            table: EntryTable::default(),
            monitor: Monitor::default(),
            temp_place: TempPlace::new(&settings.options)?,
            claims: Arc::default(),
            boot: settings.boot(),
            settings,
            started: OnceLock::new(),
        })
    }

    /// Returns the options of the copy.
    pub(super) const fn options(&self) -> &Options {
        &self.settings.options
    }
}
