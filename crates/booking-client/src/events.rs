//! Events of reservations and jobs, as they happen. A lost connection is made again, and no event is missed or repeated.
//!
//! ```text
//! thread: connect after the last event -> events -> connection lost -> pause -> connect after the last event
//!                                           '-> channel -> Events, an iterator
//! ```
//!
//! The thread ends with its iterator: at the next event or sign of life.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
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
}

impl<T> Events<T> {
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
    fn start(
        name: &str,
        work: impl FnOnce(&SyncSender<Result<T, ClientError>>) + Send + 'static,
    ) -> io::Result<Self> {
        let (tell, incoming) = sync_channel(WAITING_MAX);
        let cancellation = Cancellation::default();
        let covered = cancellation.clone();
        let run = move || covered.cover(|| work(&tell));
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self {
            incoming,
            cancellation,
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
        let first = patiently(|| self.open_events(after))?;
        let client = self.clone();
        let started = Events::start("events", move |tell| {
            Follower::start(after).reservations(&client, first, tell);
        });
        started.map_err(|why| self.unstarted(&why))
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
    fn reservations(
        mut self,
        client: &Client,
        first: impl BufRead,
        tell: &SyncSender<Result<Event, ClientError>>,
    ) {
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
        tell: &SyncSender<Result<Event, ClientError>>,
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
    fn job(
        mut self,
        client: &Client,
        id: u64,
        tell: &SyncSender<Result<JobEventView, ClientError>>,
    ) {
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
