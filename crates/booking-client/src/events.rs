//! Events of reservations and jobs, as they happen. A lost connection is made again, and no event is missed or repeated.
//!
//! ```text
//! thread: connect after the last event -> events -> connection lost -> pause -> connect after the last event
//!                                           '-> channel -> Events, an iterator
//! ```
//!
//! The thread ends with its iterator: at the next event or sign of life. A [`Notice`] wakes an event loop when an event
//! has come, so that it needs no thread that waits.

use std::fmt;
use std::io::{self, BufRead, Cursor, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;

use crate::client::Client;
use crate::client_error::ClientError;
use crate::json::{Event, JobEventView};
use crate::patience::{Failure, patiently};

/// Events as they happen. The iterator waits for the next one. It ends after the last event, or after a failure that
/// does not pass.
#[derive(Debug)]
pub struct Events<T> {
    incoming: Receiver<Result<T, ClientError>>,
    cancellation: Cancellation,
    notice: Notice,
}

/// Notice of events: a function that is called after each event, and after the end. Clones share it.
#[derive(Clone, Default)]
pub struct Notice(Arc<Mutex<Option<Box<Notify>>>>);

type Notify = dyn Fn() + Send;

impl Notice {
    /// Replaces the function. It is called now, since events may have come before. It must not wait.
    pub fn set(&self, notify: impl Fn() + Send + 'static) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notify();
        *kept = Some(Box::new(notify));
    }

    fn call(&self) {
        let notify = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = &*notify {
            notify();
        }
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}

/// Sender of events, with their notice.
struct Teller<T> {
    /// None at the end only.
    sender: Option<SyncSender<Result<T, ClientError>>>,
    notice: Notice,
}

impl<T> Teller<T> {
    /// Passes on an event. Fails if the receiver is gone.
    fn send(&self, event: Result<T, ClientError>) -> Result<(), SendError<Result<T, ClientError>>> {
        let Some(sender) = &self.sender else {
            return Err(SendError(event));
        };
        sender.send(event)?;
        self.notice.call();
        Ok(())
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        // the receiver must see the end once it is notified
        drop(self.sender.take());
        self.notice.call();
    }
}

impl<T> Events<T> {
    /// Returns the notice of the events.
    pub fn notice(&self) -> Notice {
        self.notice.clone()
    }

    /// Waits for the next event for at most `time`. Returns [`Poll::Pending`] if none has come by then.
    pub fn next_within(&self, time: Duration) -> Poll<Option<Result<T, ClientError>>> {
        match self.incoming.recv_timeout(time) {
            Ok(event) => Poll::Ready(Some(event)),
            Err(RecvTimeoutError::Timeout) => Poll::Pending,
            Err(RecvTimeoutError::Disconnected) => Poll::Ready(None),
        }
    }
}

impl<T: Send + 'static> Events<T> {
    /// Runs `work` in a thread, with the sender of the events.
    fn start(name: &str, work: impl FnOnce(&Teller<T>) + Send + 'static) -> io::Result<Self> {
        let (sender, incoming) = sync_channel(WAITING_MAX);
        let notice = Notice::default();
        let tell = Teller {
            sender: Some(sender),
            notice: notice.clone(),
        };
        let cancellation = Cancellation::default();
        let covered = cancellation.clone();
        let run = move || covered.cover(|| work(&tell));
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self {
            incoming,
            cancellation,
            notice,
        })
    }
}

impl<T> Iterator for Events<T> {
    type Item = Result<T, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.incoming.recv().ok()
    }
}

impl<T> Drop for Events<T> {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

impl Client {
    /// Returns changes of reservations that the client may see, after the event with the number `after`, or from now on.
    /// Later, the scheduler may be away for ten minutes.
    pub fn follow_reservations(&self, after: Option<u64>) -> Result<Events<Event>, ClientError> {
        // here, so that no event after this call is missed
        let (first, last) = patiently(|| {
            let lines = self.open_events(after)?;
            self.begin(lines, after)
        })?;
        let client = self.clone();
        let started = Events::start("events", move |tell| {
            Follower::start(last).reservations(&client, first, tell);
        });
        started.map_err(|why| self.unstarted(&why))
    }

    /// Returns the lines of a connection, and the number after which the next connection continues: `after`, or the one with
    /// which the lines begin. Without it, a connection that is lost now would lose events. A scheduler that sends no number
    /// first has none.
    fn begin<L: BufRead>(
        &self,
        mut lines: L,
        after: Option<u64>,
    ) -> Result<(impl BufRead + use<L>, Option<u64>), Failure> {
        let mut begin = String::new();
        if after.is_none() {
            let read = lines.by_ref().take(BEGIN_MAX).read_line(&mut begin);
            let lost = |why: &dyn fmt::Display| Failure {
                error: self.protocol(why),
                wait: None,
                may_pass: true,
            };
            read.map_err(|why| lost(&why))?;
            if !begin.ends_with('\n') && (begin.len() as u64) < BEGIN_MAX {
                return Err(lost(&"its events ended before they began"));
            }
        }
        let number = begin.strip_prefix("id:");
        let number = number.and_then(|number| number.trim().parse().ok());
        Ok((Cursor::new(begin).chain(lines), after.or(number)))
    }

    /// Returns the events of a job after the one with the number `after`, 0 for all, until it ends. The scheduler may be
    /// away for ten minutes.
    pub fn follow_job(&self, id: u64, after: u64) -> Result<Events<JobEventView>, ClientError> {
        let client = self.clone();
        let started = Events::start("events", move |tell| {
            Follower::start(Some(after)).job(&client, id, tell);
        });
        started.map_err(|why| self.unstarted(&why))
    }
}

/// Reader of events, over one connection after the other.
struct Follower {
    clock: Clock,
    /// Number of the last event; none before the first.
    last: Option<u64>,
    /// Time of the last sign of life.
    heard: Instant,
    /// Failures since then.
    failures: u32,
}

impl Follower {
    fn start(last: Option<u64>) -> Self {
        let clock = Clock::start();
        Self {
            clock,
            last,
            heard: clock.now(),
            failures: 0,
        }
    }

    /// Passes on changes of reservations, those of a connection first, until the receiver is gone, or a failure does not
    /// pass.
    fn reservations(mut self, client: &Client, first: impl BufRead, tell: &Teller<Event>) {
        let mut relayed = self.relay(client, first, tell);
        loop {
            match relayed {
                Ok(true) => self.rest(FIRST_PAUSE),
                Ok(false) => return,
                Err(failure) if self.may_pass(&failure) => self.wait(&failure),
                Err(failure) => {
                    tell.send(Err(failure.error)).ok();
                    return;
                }
            }
            if interrupt::check().is_err() {
                return;
            }
            let lines = client.open_events(self.last);
            relayed = lines.and_then(|lines| self.relay(client, lines, tell));
        }
    }

    /// Passes on the events of a connection until it ends. Returns false if the receiver is gone.
    fn relay(
        &mut self,
        client: &Client,
        mut lines: impl BufRead,
        tell: &Teller<Event>,
    ) -> Result<bool, Failure> {
        self.hear();
        // number that an event without data has, the first one of a connection
        let mut seen = None;
        let mut line = String::new();
        loop {
            line.clear();
            let read = lines.by_ref().take(LINE_MAX).read_line(&mut line);
            if line.len() as u64 >= LINE_MAX {
                let why = "a line of its events is too long";
                return Err(Failure::lasting(client.protocol(&why)));
            }
            // the next connection continues after the last event
            if read.is_err() || !line.ends_with('\n') {
                return Ok(true);
            }
            self.hear();
            let line = line.trim_end();
            if let Some(data) = line.strip_prefix("data:") {
                let event: Event = serde_json::from_str(data.trim())
                    .map_err(|why| Failure::lasting(client.protocol(&why)))?;
                let is_new = self.last.is_none_or(|last| last < event.seq);
                self.last = Some(event.seq);
                if is_new && tell.send(Ok(event)).is_err() {
                    return Ok(false);
                }
                seen = None;
            } else if let Some(id) = line.strip_prefix("id:") {
                seen = id.trim().parse().ok();
            } else if line.is_empty() {
                self.last = seen.take().max(self.last);
            }
            if interrupt::check().is_err() {
                return Ok(false);
            }
        }
    }

    /// Passes on the events of a job until it has ended, or a failure does not pass.
    fn job(mut self, client: &Client, id: u64, tell: &Teller<JobEventView>) {
        while interrupt::check().is_ok() {
            match client.try_job_events(id) {
                Ok(events) => {
                    self.hear();
                    let has_ended = events.last().is_some_and(|last| last.state.is_end());
                    for event in events {
                        let is_new = self.last.is_none_or(|last| last < event.seq);
                        if is_new && {
                            self.last = Some(event.seq);
                            tell.send(Ok(event)).is_err()
                        } {
                            return;
                        }
                    }
                    if has_ended {
                        return;
                    }
                    self.rest(LOOK);
                }
                Err(failure) if self.may_pass(&failure) => self.wait(&failure),
                Err(failure) => {
                    tell.send(Err(failure.error)).ok();
                    return;
                }
            }
        }
    }

    /// Notes a sign of life.
    fn hear(&mut self) {
        self.heard = self.clock.now();
        self.failures = 0;
    }

    /// Returns true if a failure may pass, and has not lasted too long.
    fn may_pass(&self, failure: &Failure) -> bool {
        failure.may_pass && self.clock.now().since(self.heard) < SILENCE_MAX
    }

    /// Waits after a failure, longer after each.
    fn wait(&mut self, failure: &Failure) {
        let time = FIRST_PAUSE * 2_u32.pow(self.failures.min(4));
        self.failures = self.failures.saturating_add(1);
        let asked = failure.wait.unwrap_or_default().min(PAUSE_MAX);
        self.rest(time.max(asked));
    }

    /// Waits, unless the iterator is dropped meanwhile.
    fn rest(&self, time: Duration) {
        let end = self.clock.now() + time;
        while self.clock.now() < end && interrupt::check().is_ok() {
            pause(time.min(Duration::from_millis(50)));
        }
    }
}

/// Most octets of a line.
const LINE_MAX: u64 = 64 << 20;
/// Most octets of the first line without an event.
const BEGIN_MAX: u64 = 64;
/// Events that wait for the program.
const WAITING_MAX: usize = 64;
/// Interval at which a job is read.
const LOOK: Duration = Duration::from_secs(1);
/// First pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause that a scheduler may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time after which a scheduler that cannot be reached is given up.
const SILENCE_MAX: Duration = Duration::from_mins(10);
