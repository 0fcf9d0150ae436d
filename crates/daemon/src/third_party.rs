//! Third-party transfer: one daemon sends files to another daemon, for a client that only follows the progress.
//!
//! [`copy`] is the client's part; `relay` is that of the source. Both daemons are a [`Daemon`] with
//! a session of its own. The source makes a key, the target admits it, and the data goes directly
//! between them. The client passes on the file list, shows events and sends keepalives. An error
//! names the daemon that it came from, and ends both sessions.

use std::thread;
use std::time::Duration;

use lighthaul_base::counted;
use lighthaul_copy::relay::{Message, Relay, Request};
use lighthaul_copy::watch::{Failed, Summary, Watcher};
use lighthaul_files::list::{ListSender, PathList};
use lighthaul_files::options::Options;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::keepalive::Keepalive;
use lighthaul_session::message::{self as own, Hello};
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

use crate::error::Fault;

/// Interval of checks for messages of the target and for a stop request.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest silence of the source; it connects to the target within 10 s and then sends keepalives.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of failures that are kept; further failures are only counted.
const FAILURES_MAX: usize = 1 << 17;

/// One of the two daemons.
#[derive(Clone, Copy, Debug)]
pub struct Daemon<'a> {
    /// Session with the daemon.
    pub session: &'a Session,
    /// Name of the daemon in messages.
    pub name: &'a str,
}

/// Makes `source` send the files of `relay`, or the files in `names`, and follows the copy to its end. The request of
/// `hello` is ignored.
pub fn copy(
    [source, target]: [Daemon<'_>; 2],
    (relay, names): (Relay, Option<PathList>),
    (hello, options): (&Hello, &Options),
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let target_asked = |key| Request::Expect {
        key,
        target: relay.target.clone(),
        options: options.clone(),
    };
    let source_asked = Request::Send {
        relay: relay.clone(),
        options: options.clone(),
    };
    let list = names.map(ListSender::start).transpose()?;
    let result = source
        .ask(hello, &source_asked)
        .and_then(|caller| target.expect(hello, &target_asked(caller)))
        .and_then(|()| source.say(&Message::Expected))
        .and_then(|()| {
            thread::scope(|scope| {
                // both daemons end a session whose client is silent
                let _alive =
                    [source, target].map(|daemon| Keepalive::start(scope, daemon.session, || 0));
                follow([source, target], list.as_ref(), watcher)
            })
        });
    if let Err(error) = &result {
        source.session.give_up(error);
        target.session.give_up(error);
    }
    result
}

/// Follows the copy until its end.
fn follow(
    [source, target]: [Daemon<'_>; 2],
    list: Option<&ListSender>,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let mut failures = Vec::new();
    let mut uncounted = 0_u64;
    let mut blamed = source;
    let clock = source.session.clock;
    let began = clock.now();
    loop {
        interrupt::check()?;
        target.look()?;
        if let Some(list) = list {
            let has_room = || source.session.stream.has_room();
            list.send_pages(has_room, |page| source.say(&Message::Paths { page }))?;
        }
        let message = match source.session.hear_for(CHECK_INTERVAL) {
            Err(error) if error.code() == Code::TimedOut && !source.session.was_told() => {
                if clock.now().since(began.max(source.session.heard_at())) > SILENCE_TIMEOUT {
                    return Err(source.blame(Fault::Silent.into()));
                }
                continue;
            }
            message => message.map_err(|error| blamed.blame(error))?,
        };
        match message {
            Message::Event(sight) => watcher(sight),
            Message::Failed(_) if failures.len() >= FAILURES_MAX => uncounted += 1,
            Message::Failed(failed) => failures.push(failed),
            Message::TargetFailed => blamed = target,
            Message::Done(summary) => {
                if uncounted > 0 {
                    failures.push(more(uncounted));
                }
                return Ok(Summary {
                    failures,
                    ..summary
                });
            }
            Message::RequestPaths => match list {
                Some(list) => list.request(),
                None => return Err(source.blame(unexpected("a progress report"))),
            },
            Message::SourceKey { .. } | Message::Expected | Message::Paths { .. } => {
                return Err(source.blame(unexpected("a progress report")));
            }
        }
    }
}

/// Returns the entry that stands for failures beyond the maximum.
fn more(count: u64) -> Failed {
    Failed {
        path: Vec::new(),
        code: Code::Partial as u8,
        why: format!("and {}", counted(count, "more failure", "more failures")),
    }
}

impl Daemon<'_> {
    /// Asks the source to send. Returns the key with which it will connect to the target.
    fn ask(self, hello: &Hello, request: &Request) -> Result<[u8; 32], Error> {
        let Message::SourceKey { key: caller } = self.hello(hello, request)? else {
            return Err(self.blame(unexpected("the key of the relay")));
        };
        Ok(caller)
    }

    /// Asks the target to admit the source.
    fn expect(self, hello: &Hello, request: &Request) -> Result<(), Error> {
        let own::Message::Welcome = self.hello(hello, request)? else {
            return Err(self.blame(unexpected("an agreement")));
        };
        Ok(())
    }

    fn hello<M: Topic>(self, hello: &Hello, request: &Request) -> Result<M, Error> {
        let asked = self.session.ask::<Message>(hello.with::<Message>(request));
        asked.map_err(|error| self.blame(error))?;
        self.session.hear().map_err(|error| self.blame(error))
    }

    fn say<M: Topic>(self, message: &M) -> Result<(), Error> {
        self.session.say(message).map_err(|error| self.blame(error))
    }

    /// Returns the error of the target, if it sent one. A lost connection is noticed by the source.
    fn look(self) -> Result<(), Error> {
        match self.session.heard::<Message>() {
            Ok(Some(_)) => Err(self.blame(unexpected("the end of the session"))),
            Err(error) if self.session.was_told() => Err(self.blame(error)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Adds the name of the daemon to an error. A local interruption stays as it is.
    fn blame(self, error: Error) -> Error {
        if error.code() == Code::Interrupted && !self.session.was_told() {
            return error;
        }
        Fault::At(self.name.to_owned(), error).into()
    }
}

fn unexpected(instead_of: &'static str) -> Error {
    Fault::Unexpected(instead_of).into()
}
