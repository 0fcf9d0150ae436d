//! A copy on the sending side, as all of its threads see it.

use std::sync::Arc;

use lighthaul_files::listed::Finds;
use lighthaul_files::options::Options;
use lighthaul_io::control::Stream;
use lighthaul_io::fs::ground::Ground;
use lighthaul_session::error::Error;
use lighthaul_session::machine::Baton;
use lighthaul_session::session::Session;

use super::queue::Queue;
use super::settings::Settings;
use crate::board::Board;
use crate::crew::Crew;
use crate::message::LIST;

/// What all threads of a sender share.
pub(super) struct Transfer<'a> {
    pub(super) session: &'a Session,
    /// The stream of the list.
    pub(super) stream: Stream,
    pub(super) crew: Crew,
    pub(super) queue: Queue,
    pub(super) board: Board,
    /// What a lane has learned of the path, for the next.
    pub(super) baton: Baton,
    /// Where the files are.
    pub(super) ground: Arc<Ground>,
    pub(super) settings: Settings,
}

impl<'a> Transfer<'a> {
    /// A copy of what `finds` has, of which nothing has happened yet.
    pub(super) fn new(
        session: &'a Session,
        finds: &Finds,
        settings: Settings,
    ) -> Result<Self, Error> {
        Ok(Self {
            session,
            stream: session.control.open(LIST)?,
            crew: Crew::default(),
            queue: Queue::default(),
            board: Board::default(),
            baton: Baton::default(),
            ground: Arc::clone(&finds.ground),
            settings,
        })
    }

    /// How to copy.
    pub(super) const fn options(&self) -> &Options {
        &self.settings.options
    }
}
