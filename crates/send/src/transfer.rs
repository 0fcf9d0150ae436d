//! State of a copy on the sending side, shared by its threads.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use lighthaul_copy::message::{LIST, Message};
use lighthaul_copy::monitor::Monitor;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_files::source_store::Sources;
use lighthaul_io::control::Stream;
use lighthaul_session::choose::Choice;
use lighthaul_session::error::Error;
use lighthaul_session::known_path::KnownPath;
use lighthaul_session::machine::SharedLearned;
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

use super::circuit_lock::CircuitLock;
use super::queue::Queue;
use super::removals::Removals;
use super::settings::Settings;

/// State that the threads of a sender share.
pub(super) struct Transfer<'a> {
    pub(super) session: &'a Session,
    /// Stream of the list of entries.
    pub(super) stream: Stream,
    pub(super) threads: ThreadGroup,
    pub(super) queue: Queue,
    /// Turn of the lanes on the circuit, if the copy has one.
    pub(super) circuit: CircuitLock,
    /// Source files to remove once they are in place at the target.
    pub(super) removals: Removals,
    pub(super) monitor: Monitor,
    /// Measurements of one object's machine for the next.
    pub(super) learned: SharedLearned,
    /// Part of the file system, or the store, with the sources.
    pub(super) sources: Sources,
    pub(super) settings: Settings,
    /// Path whose rate was measured, or is known.
    pub(super) path: OnceLock<KnownPath>,
    /// True once a lane has moved its data to TCP.
    pub(super) diverted: AtomicBool,
}

impl<'a> Transfer<'a> {
    /// Creates the state of a new copy of the entries in `finds`.
    pub(super) fn new(
        session: &'a Session,
        finds: &SourceEntries,
        settings: Settings,
    ) -> Result<Self, Error> {
        Ok(Self {
            session,
            stream: session.control.open(LIST)?,
            threads: ThreadGroup::default(),
            queue: Queue::default(),
            circuit: CircuitLock::default(),
            removals: Removals::default(),
            monitor: Monitor::default(),
            learned: SharedLearned::default(),
            sources: Sources {
                access: Arc::clone(&finds.access),
                store: finds.store.clone(),
            },
            settings,
            path: OnceLock::new(),
            diverted: AtomicBool::new(false),
        })
    }

    /// Reports a change of the rate to the user, who may be at the other side.
    pub(super) fn explain(&self, changed: Option<String>) {
        let Some(text) = changed else {
            return;
        };
        self.session.say(&Message::Changed(text.clone())).ok();
        self.monitor.show(CopyEvent::Changed(text));
    }

    /// Reports another protocol of the next objects to the user, who may be at the other side.
    pub(super) fn choose(&self, choice: Choice) {
        let Choice { protocol, why } = choice;
        let chosen = CopyEvent::Chosen(protocol.to_string(), why.clone());
        self.session.say(&Message::Chosen { protocol, why }).ok();
        self.monitor.show(chosen);
    }

    /// Sends a message, once the queue has room for it.
    pub(super) fn say(&self, message: &Message) -> Result<(), Error> {
        self.threads.send(&self.session.stream, message.encode())
    }

    /// Returns the options of the copy.
    pub(super) const fn options(&self) -> &Options {
        &self.settings.options
    }
}
