//! Set-up of the path and of the lanes, while other threads handle the list and publish files.
//!
//! The sender begins: it explores the path first, or offers its parameters at once where little or nothing must be
//! sent.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::thread::Scope;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::message::Message;
use lighthaul_copy::thread_group::CHECK_INTERVAL;
use lighthaul_io::control::Control;
use lighthaul_io::drive::Lane;
use lighthaul_io::store::blocks::Blocks;
use lighthaul_session::dialog::Dialog;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;
use lighthaul_session::halt::Halt;
use lighthaul_session::join::join;
use lighthaul_session::machine::Learned;
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::path::{Path, explore};
use lighthaul_session::protocol::{self, Protocol};
use lighthaul_session::role::Role;

use super::job::{Incoming, Job};
use super::lane::ReceiveLane;
use super::queues::StartedLanes;
use super::sink::FileSink;
use super::temp_files::TempFiles;
use super::transfer::Transfer;

/// Maximum number of objects that are announced to a lane before it takes them.
const ANNOUNCED_MAX: usize = 2;

/// Thread that sets up the path.
pub(super) struct PathSetup<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    /// Access to the target, once that is open.
    pub(super) files: Receiver<TempFiles>,
    pub(super) jobs: Sender<Job>,
    /// Ends the set-up when the copy ends.
    pub(super) halt: Arc<Halt>,
    /// Start of the copy.
    pub(super) begun: Instant,
}

/// Lane, the store of the lane, and the queue of its objects.
type LaneParts<'a> = (ReceiveLane<'a>, Blocks<FileSink>, SyncSender<Incoming>);

/// Path that both sides agreed on, with the further connections.
type Agreed = (Offer, Path, Vec<Control>);

impl<'a> PathSetup<'a> {
    /// Agrees with the sender on the path, and starts the lanes, which it reports to `started`.
    pub(super) fn run<'s>(
        &self,
        scope: &'s Scope<'s, 'a>,
        role: &Role,
        started: &SyncSender<StartedLanes>,
    ) -> Result<(), Error> {
        let dialog = self.transfer.session.path_dialog(Arc::clone(&self.halt))?;
        match self.agree(&dialog, role) {
            Ok(agreed) => match self.files()? {
                Some(files) => self.start(scope, (agreed, &files), started),
                None => Ok(()),
            },
            // the copy has ended, so its path is not needed
            Err(_) if self.halt.check().is_err() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn agree(&self, dialog: &Dialog<'_>, role: &Role) -> Result<Agreed, Error> {
        let options = self.transfer.options();
        let asked = protocol::asked(&options.protocol)?;
        let mut path = Path::none(dialog.session);
        // the sender may have to walk or to compare first
        let mut said = path.listen(dialog, None)?;
        if said == Message::Explore {
            let lanes = offer::lanes(asked, !options.trc.is_empty());
            path = explore(dialog, role, false, lanes)?;
            said = path.listen(dialog, None)?;
        }
        let Message::Offer(offer) = said else {
            return Err(PeerFault::Unexpected("an offer").into());
        };
        if !offer.udp {
            path.sockets.clear();
        }
        // a sender may use fewer sockets than were explored
        path.sockets.truncate(offer.lanes.into());
        offer::check(&offer, &path)?;
        let joined = join(dialog, role, offer.joins, self.transfer.settings.plain)?;
        Ok((offer, path, joined))
    }

    /// Waits until the target is open. Returns none if the copy has ended.
    fn files(&self) -> Result<Option<TempFiles>, Error> {
        loop {
            self.transfer.threads.check()?;
            match self.files.recv_timeout(CHECK_INTERVAL) {
                Ok(files) => return Ok(Some(files)),
                Err(RecvTimeoutError::Timeout) if self.halt.check().is_ok() => {}
                Err(_) => return Ok(None),
            }
        }
    }

    fn start<'s>(
        &self,
        scope: &'s Scope<'s, 'a>,
        ((offer, path, joined), files): (Agreed, &TempFiles),
        started: &SyncSender<StartedLanes>,
    ) -> Result<(), Error> {
        let transfer = self.transfer;
        let (session, settings) = (transfer.session, &transfer.settings);
        transfer.monitor.announce(
            session,
            (protocol::asked(&settings.options.protocol)?, &offer),
            (settings.plain, settings.options.digest),
            session.clock.now().since(self.begun),
        );
        transfer.started.get_or_init(|| session.clock.now());
        let small_buffer = offer::buffer_advice(&offer, &path);
        let lanes = offer::lanes_over(session, &offer, path, &joined)?;
        let auto = protocol::asked(&settings.options.protocol)?.is_none();
        let may_follow = |protocol: &&Protocol| offer.allows(**protocol, auto);
        for protocol in Protocol::ALL.iter().filter(may_follow) {
            let offer = offer.with(*protocol);
            let check = |lane| offer::setup(&offer, (0, 1), lane, settings.plain).map(drop);
            lanes.iter().try_for_each(check)?;
        }
        let limits = settings.budget.of_lane(lanes.len());
        let mut queues = Vec::new();
        for (number, lane) in lanes.into_iter().enumerate() {
            let (lane, store, queue) = self.lane((offer, files), (number, lane), limits)?;
            queues.push(queue);
            let threads = &*transfer.threads;
            scope.spawn(move || threads.run("lane", || lane.run(store)));
        }
        // a receiver that has ended needs no lanes
        let lanes = StartedLanes {
            queues,
            offer,
            small_buffer,
        };
        started.send(lanes).ok();
        Ok(())
    }

    /// Creates a lane, with its store and the queue of its objects.
    fn lane(
        &self,
        (offer, files): (Offer, &TempFiles),
        (number, lane): (usize, Lane),
        (ring_bytes, open_max): (usize, usize),
    ) -> Result<LaneParts<'a>, Error> {
        let sink = FileSink::new(self.transfer, files, open_max, self.jobs.clone())?;
        let packet_len = offer.with(offer.protocol).packet_len;
        let (announce, objects) = sync_channel(ANNOUNCED_MAX);
        let lane = ReceiveLane {
            transfer: self.transfer,
            counts: self.transfer.monitor.lane(number),
            offer,
            lane,
            packet_len,
            ring_bytes,
            objects,
            learned: Learned::default(),
            waited: Duration::ZERO,
        };
        Ok((lane, Blocks::start(sink, packet_len, ring_bytes)?, announce))
    }
}
