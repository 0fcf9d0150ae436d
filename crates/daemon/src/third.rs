//! Having one daemon send to another: no byte of a file comes by here.

use std::time::Duration;

use lighthaul_files::list::{ListSender, PathList};
use lighthaul_files::options::Options;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::{self as own, Hello};
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;
use lighthaul_transfer::relay::{Message, Relay, Request};
use lighthaul_transfer::watch::{Failed, Summary, Watcher};

/// How often we look at the target, and whether somebody asked to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long nothing may come from the source while it calls the target and looks at the path.
const PATIENCE: Duration = Duration::from_mins(1);
/// Failures that are kept; more are only counted.
const FAILURES_MAX: usize = 1 << 17;

/// One of the two daemons, and what people call it.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Our session with it.
    pub session: &'a Session,
    /// Its name.
    pub name: &'a str,
}

/// Has `source` send as `relay` says, all or what `names` lists, and follows it to the end. Of `hello` the
/// request does not count.
pub fn copy(
    [source, target]: [End<'_>; 2],
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
        .and_then(|()| follow([source, target], list.as_ref(), watcher));
    if let Err(error) = &result {
        source.session.give_up(error);
        target.session.give_up(error);
    }
    result
}

/// Watches until all is over.
fn follow(
    [source, target]: [End<'_>; 2],
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
            list.send_pages(has_room, |page| source.say(&Message::Paths(page)))?;
        }
        let message = match source.session.hear_for(LOOK) {
            Err(error) if error.code == Code::TimedOut && !source.session.was_told() => {
                if clock.now().since(began.max(source.session.heard_at())) > PATIENCE {
                    let text = "nothing was heard for a minute";
                    return Err(source.blame(Error::new(Code::TimedOut, text)));
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
                None => return Err(source.blame(out_of_turn())),
            },
            Message::SourceKey { .. } | Message::Expected | Message::Paths(_) => {
                return Err(source.blame(out_of_turn()));
            }
        }
    }
}

/// Stands for failures that nobody would read.
fn more(count: u64) -> Failed {
    Failed {
        path: Vec::new(),
        code: Code::Partial as u8,
        why: format!("and {count} more failed"),
    }
}

impl End<'_> {
    /// Asks the source to send; answers the key that it will call with.
    fn ask(self, hello: &Hello, request: &Request) -> Result<[u8; 32], Error> {
        let Message::SourceKey { key: caller } = self.hello(hello, request)? else {
            return Err(self.blame(out_of_turn()));
        };
        Ok(caller)
    }

    /// Has the target expect the source.
    fn expect(self, hello: &Hello, request: &Request) -> Result<(), Error> {
        let own::Message::Welcome { .. } = self.hello(hello, request)? else {
            return Err(self.blame(out_of_turn()));
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

    /// Fails if the target has said that it fails; that it has gone, the source will notice.
    fn look(self) -> Result<(), Error> {
        match self.session.heard::<Message>() {
            Ok(Some(_)) => Err(self.blame(out_of_turn())),
            Err(error) if self.session.was_told() => Err(self.blame(error)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// The same failure, with the name of this side; our own being stopped is nobody's.
    fn blame(self, error: Error) -> Error {
        if error.code == Code::Interrupted && !self.session.was_told() {
            return error;
        }
        Error::new(error.code, format!("{}: {error}", self.name))
    }
}

fn out_of_turn() -> Error {
    Error::new(Code::Protocol, "it spoke out of turn")
}
