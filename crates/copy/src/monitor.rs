//! Counters and events of a transfer, for its observer.
//!
//! Threads of the transfer write into one shared [`Monitor`]: [`Counts`] for each lane, and a queue
//! of [`CopyEvent`] values. The observer takes the events, and adds up the counters in
//! [`Monitor::progress`]. About 4 MiB of events may wait; then [`Monitor::show`] blocks the thread
//! until the observer takes them. Counters are independent: a sum may mix values of different
//! moments. Times are in nanoseconds.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_files::digest::DigestKind;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::Protocol;
use lighthaul_session::session::Session;

use crate::failures::Reasons;
use crate::watch::{CURRENT_MAX, CopyEvent, CopyProgress, CurrentFile, DeltaTotals, Start};

/// Maximum number of bytes of events that wait for the observer: about four thousand events.
const BYTES_MAX: usize = 4 << 20;
/// Approximate bytes of an event, without its lists.
const EVENT_BYTES: usize = 1 << 10;

/// Counters and events that the threads of a transfer write and its observer reads.
#[derive(Debug, Default)]
pub struct Monitor {
    lanes: [Counts; LANES_MAX],
    events: Mutex<Events>,
    taken: Condvar,
    /// Messages for the peer that were not sent yet.
    pending_warnings: Mutex<Vec<String>>,
    /// Entries that this transfer has put in place.
    pub published: AtomicU64,
    /// True once the start of the data was reported to the observer.
    started: AtomicBool,
    /// Bytes of files that came with the list.
    pub contents: AtomicU64,
    /// Reasons for which the peer cannot send entries.
    pub reasons: Reasons,
    /// Changed files that are sent as deltas.
    delta: Mutex<DeltaTotals>,
}

/// Events that the observer has not taken yet.
#[derive(Debug, Default)]
struct Events {
    waiting: Vec<CopyEvent>,
    /// Approximate size of the waiting events in bytes.
    bytes: usize,
    /// True if the observer has stopped.
    closed: bool,
}

/// Counters of one lane.
// fields: each counts one thing
#[derive(Debug, Default)]
pub struct Counts {
    /// Bytes of complete objects, and of the current one.
    pub bytes: AtomicU64,
    /// Packets that the lane sent or received.
    pub packets: AtomicU64,
    /// Packets that were sent or received again.
    pub again: AtomicU64,
    /// Authentic datagrams that arrived at the receiving end.
    pub datagrams: AtomicU64,
    /// Datagrams that the kernel dropped because the socket's buffer was full.
    pub buffer_drops: AtomicU64,
    /// Datagrams of other senders.
    pub foreign: AtomicU64,
    /// Current round of RBUDP.
    pub round: AtomicU16,
    /// True while the receiver has paused the sender.
    pub held: AtomicBool,
    /// Time that the lane has waited for the source disk, in nanoseconds.
    pub source_wait: AtomicU64,
    /// Time that the lane has waited for the target disk, in nanoseconds.
    pub target_wait: AtomicU64,
    /// Time in which the lane had an object, in nanoseconds.
    pub object_time: AtomicU64,
    /// Bytes at the receiver that wait for its disk now.
    pub backlog_bytes: AtomicU64,
    /// Time for which the lane's thread waited for a processor, in nanoseconds.
    pub run_delay: AtomicU64,
    current: Mutex<Option<Current>>,
}

/// Function that finds the file at a position in an object.
type FileAt = dyn Fn(u64) -> Option<CurrentFile> + Send;

/// Object that a lane moves.
struct Current {
    file_at: Box<FileAt>,
    /// Packets of the lane before the object.
    packets: u64,
    packet_len: u64,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut current = f.debug_struct("Current");
        current.field("packets", &self.packets);
        current.finish_non_exhaustive()
    }
}

impl Counts {
    /// Records that the lane begins an object. `file_at` returns the file at a position in it, or none after its
    /// last byte.
    pub fn begin(
        &self,
        file_at: impl Fn(u64) -> Option<CurrentFile> + Send + 'static,
        packet_len: u32,
    ) {
        let current = Current {
            file_at: Box::new(file_at),
            packets: self.first_packets(),
            packet_len: packet_len.into(),
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(current);
    }

    /// Records that the lane has ended its object.
    pub fn end(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the file that the lane moves, unless its whole object has moved.
    fn current(&self) -> Option<CurrentFile> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let current = current.as_ref()?;
        let packets = self.first_packets().saturating_sub(current.packets);
        let moved = packets.saturating_mul(current.packet_len);
        (current.file_at)(moved).filter(|file| file.done < file.size)
    }

    /// Returns the number of packets, without retransmissions.
    fn first_packets(&self) -> u64 {
        let packets = self.packets.load(Relaxed);
        packets.saturating_sub(self.again.load(Relaxed))
    }
}

/// Returns a time in nanoseconds.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Monitor {
    /// Returns the counters of lane `number`.
    pub const fn lane(&self, number: usize) -> &Counts {
        &self.lanes[number]
    }

    /// Returns the counters of all lanes.
    pub const fn lanes(&self) -> &[Counts] {
        &self.lanes
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an event for the observer. Waits while too many events are queued.
    pub fn show(&self, event: CopyEvent) {
        let full = |events: &mut Events| events.bytes >= BYTES_MAX && !events.closed;
        let events = self.taken.wait_while(self.lock(), full);
        let mut events = events.unwrap_or_else(PoisonError::into_inner);
        if !events.closed {
            events.bytes += bytes(&event);
            events.waiting.push(event);
        }
    }

    /// Reports the transfer parameters to the observer before data move. `start_up` is the time since the start of the
    /// copy.
    pub fn announce(
        &self,
        session: &Session,
        (asked, offer): (Option<Protocol>, &Offer),
        protection: (bool, DigestKind),
        start_up: Duration,
    ) {
        if !offer.udp && asked.is_some_and(Protocol::is_datagrams) {
            let text = "no UDP datagram arrived; TCP carries the data";
            self.show(CopyEvent::Diverted(text.into()));
        }
        self.start(session, offer, protection, start_up);
    }

    /// Reports a copy without an offer, which the session's own connection has carried.
    pub fn announce_list(
        &self,
        session: &Session,
        protection: (bool, DigestKind),
        start_up: Duration,
    ) {
        if !self.started.load(Relaxed) {
            self.start(session, &Offer::of_session(session), protection, start_up);
        }
    }

    fn start(
        &self,
        session: &Session,
        offer: &Offer,
        (plain, digest): (bool, DigestKind),
        start_up: Duration,
    ) {
        self.started.store(true, Relaxed);
        let cipher = if plain {
            "plain"
        } else {
            session.secrets.cipher().name()
        };
        let has_rate = offer.udp && offer.protocol.is_datagrams();
        self.show(CopyEvent::Started(Start {
            rate_bps: has_rate.then_some(offer.rate_bps),
            protocol: offer.protocol.to_string(),
            packet_len: offer.with(offer.protocol).packet_len,
            cipher: cipher.to_owned(),
            digest: digest.name().to_owned(),
            start_up,
        }));
    }

    /// Queues a warning for the observer and for the peer, since the user may be at either side. The peer receives it
    /// with the next progress, since a peer that explores the path does not expect it.
    pub fn warn(&self, text: String) {
        self.show(CopyEvent::Warning(text.clone()));
        self.pending_warnings().push(text);
    }

    /// Takes the warnings for the peer.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.pending_warnings())
    }

    fn pending_warnings(&self) -> MutexGuard<'_, Vec<String>> {
        self.pending_warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the events since the last call.
    pub fn take_events(&self) -> Vec<CopyEvent> {
        let mut events = self.lock();
        events.bytes = 0;
        let taken = std::mem::take(&mut events.waiting);
        drop(events);
        self.taken.notify_all();
        taken
    }

    /// Drops later events, since the observer has stopped.
    pub fn close(&self) {
        self.lock().closed = true;
        self.taken.notify_all();
    }

    /// Returns the files that move now, each once.
    pub fn current(&self) -> Vec<CurrentFile> {
        let mut files: Vec<CurrentFile> = Vec::new();
        for file in self.lanes.iter().filter_map(Counts::current) {
            match files.iter_mut().find(|other| other.path == file.path) {
                Some(other) => other.done = other.done.max(file.done),
                None => files.push(file),
            }
        }
        files.truncate(CURRENT_MAX);
        files
    }

    /// Returns the counters of all deltas, which the caller may change.
    pub fn delta(&self) -> MutexGuard<'_, DeltaTotals> {
        self.delta.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the total time for which the threads of all lanes waited for a processor, in nanoseconds.
    pub fn run_delay(&self) -> u64 {
        let delays = self.lanes.iter().map(|lane| lane.run_delay.load(Relaxed));
        delays.fold(0, u64::saturating_add)
    }

    /// Returns the bytes of all lanes that wait for the disk of the receiver.
    pub fn backlog_bytes(&self) -> u64 {
        let lanes = self.lanes.iter();
        let bytes = lanes.map(|lane| lane.backlog_bytes.load(Relaxed));
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the packets that all lanes have sent, and the packets that arrived by the latest report.
    pub fn packets(&self) -> (u64, u64) {
        let sum = |count: fn(&Counts) -> &AtomicU64| {
            let counts = self.lanes.iter().map(|lane| count(lane).load(Relaxed));
            counts.fold(0, u64::saturating_add)
        };
        (sum(|lane| &lane.packets), sum(|lane| &lane.datagrams))
    }

    /// Returns the sum of the counters of all lanes.
    pub fn progress(&self, total: u64) -> CopyProgress {
        // the peer reports some counters, so their sum may overflow
        let sum = |count: fn(&Counts) -> &AtomicU64| {
            let counts = self.lanes.iter().map(|lane| count(lane).load(Relaxed));
            counts.fold(0, u64::saturating_add)
        };
        CopyProgress {
            done: sum(|lane| &lane.bytes)
                .saturating_add(self.contents.load(Relaxed))
                .min(total),
            total,
            round: self
                .lanes
                .iter()
                .map(|lane| lane.round.load(Relaxed))
                .max()
                .unwrap_or(0),
            sent: sum(|lane| &lane.packets),
            resent: sum(|lane| &lane.again),
            buffer_drops: sum(|lane| &lane.buffer_drops),
            foreign: sum(|lane| &lane.foreign),
            held: self.lanes.iter().any(|lane| lane.held.load(Relaxed)),
            published: self.published.load(Relaxed),
            lanes: self
                .lanes
                .iter()
                .filter(|lane| lane.packets.load(Relaxed) > 0)
                .count() as u8,
            source_wait: sum(|lane| &lane.source_wait),
            target_wait: sum(|lane| &lane.target_wait),
            object_time: sum(|lane| &lane.object_time),
            delta: *self.delta(),
        }
    }
}

/// Returns the approximate bytes of an event.
fn bytes(event: &CopyEvent) -> usize {
    let paths = match event {
        CopyEvent::Removed(paths) => paths.as_slice(),
        CopyEvent::Started(_)
        | CopyEvent::Moving(_)
        | CopyEvent::Current(_)
        | CopyEvent::Round { .. }
        | CopyEvent::Diverted(_)
        | CopyEvent::Chosen(..)
        | CopyEvent::Changed(_)
        | CopyEvent::Warning(_)
        | CopyEvent::Hashed(_)
        | CopyEvent::Planned(_)
        | CopyEvent::Done(_)
        | CopyEvent::CircuitReleased
        | CopyEvent::Failed(_) => &[],
    };
    let path = |path: &Vec<u8>| size_of::<Vec<u8>>() + path.len();
    EVENT_BYTES + paths.iter().map(path).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn long_lists_wait_until_earlier_lists_were_taken() {
        let monitor = Monitor::default();
        let removed = || CopyEvent::Removed(vec![vec![b'p'; 4 << 10]; 256]);
        thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|_| monitor.show(removed())));
            let (mut seen, mut most) = (0, 0);
            while seen < 100 {
                let events = monitor.take_events();
                most = most.max(events.len());
                seen += events.len();
                thread::yield_now();
            }
            assert!(most <= 4, "{most}");
        });
    }

    #[test]
    fn claims_of_a_peer_do_not_overflow() {
        let monitor = Monitor::default();
        for number in 0..2 {
            monitor.lane(number).source_wait.store(u64::MAX, Relaxed);
        }
        assert_eq!(monitor.progress(0).source_wait, u64::MAX);
    }

    #[test]
    fn file_that_several_lanes_move_is_shown_once() {
        let monitor = Monitor::default();
        let file = |path: &[u8], done| CurrentFile {
            path: path.to_vec(),
            done,
            size: 1000,
        };
        let from = |path: &'static [u8], offset| move |at| Some(file(path, offset + at));
        monitor.lane(0).packets.store(7, Relaxed);
        monitor.lane(0).begin(from(b"a", 0), 100);
        monitor.lane(1).begin(from(b"a", 500), 100);
        monitor.lane(2).begin(from(b"b", 0), 100);
        monitor.lane(0).packets.store(9, Relaxed);
        monitor.lane(1).packets.store(4, Relaxed);
        monitor.lane(1).again.store(1, Relaxed);
        monitor.lane(2).packets.store(6, Relaxed);
        assert_eq!(monitor.current(), [file(b"a", 800), file(b"b", 600)]);
        monitor.lane(1).end();
        assert_eq!(monitor.current(), [file(b"a", 200), file(b"b", 600)]);
        for number in 2..LANES_MAX {
            let file = move |at| {
                Some(CurrentFile {
                    path: vec![number as u8],
                    done: at,
                    size: 1,
                })
            };
            monitor.lane(number).begin(file, 100);
        }
        assert_eq!(monitor.current().len(), CURRENT_MAX);
    }

    #[test]
    fn shown_file_follows_the_position_in_the_object() {
        let monitor = Monitor::default();
        let small = |path: &[u8], done| CurrentFile {
            path: path.to_vec(),
            done,
            size: 150,
        };
        let lane = monitor.lane(0);
        let file_at = move |at| match at {
            0..150 => Some(small(b"a", at)),
            150..300 => Some(small(b"b", at - 150)),
            _ => None,
        };
        lane.begin(file_at, 100);
        for (packets, files) in [
            (0, vec![small(b"a", 0)]),
            (1, vec![small(b"a", 100)]),
            (2, vec![small(b"b", 50)]),
            (3, vec![]),
        ] {
            lane.packets.store(packets, Relaxed);
            assert_eq!(monitor.current(), files, "{packets}");
        }
        lane.begin(move |_| Some(small(b"c", 150)), 100);
        assert_eq!(monitor.current(), [], "all of it has moved");
    }
}
