//! Having one daemon send to another: no byte of a file comes by here.

use std::time::Duration;

use lighthaul_io::host::interrupt;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::list::{Names, Told};
use lighthaul_transfer::message::{Hello, Message, Request, Target};
use lighthaul_transfer::relay::{Relay, Relayed};
use lighthaul_transfer::session::Session;
use lighthaul_transfer::watch::{Failed, Summary, Watcher};

/// How often we look at the target, and whether somebody asked to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long nothing may come from the source while it calls the target and looks at the path.
const PATIENCE: Duration = Duration::from_mins(1);
/// Messages of the target that are looked at in a row.
const LOOKS_MAX: usize = 16;
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
    (relay, names): (Relay, Option<Names>),
    hello: &Hello,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let place = relay.target.clone();
    let list = names.map(Told::begin).transpose()?;
    let result = source
        .ask(hello, Request::Relay(relay))
        .and_then(|caller| target.expect(hello, caller, place))
        .and_then(|()| source.say(&Message::Relayed(Relayed::Expected)))
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
    list: Option<&Told>,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let mut failures = Vec::new();
    let mut uncounted = 0_u64;
    let mut blamed = source;
    let clock = source.session.clock;
    let mut heard_at = clock.now();
    loop {
        interrupt::check()?;
        target.look()?;
        if let Some(list) = list {
            let has_room = || source.session.stream.has_room();
            list.answer(has_room, |page| {
                source.say(&Message::Relayed(Relayed::Take(page)))
            })?;
        }
        let message = match source.session.hear_for(LOOK) {
            Err(error) if error.code == Code::TimedOut && !source.session.was_told() => {
                if clock.now().since(heard_at) > PATIENCE {
                    let text = "nothing was heard for a minute";
                    return Err(source.blame(Error::new(Code::TimedOut, text)));
                }
                continue;
            }
            message => message.map_err(|error| blamed.blame(error))?,
        };
        heard_at = clock.now();
        let Message::Relayed(relayed) = message else {
            return Err(source.blame(out_of_turn()));
        };
        match relayed {
            Relayed::Seen(sight) => watcher(sight),
            Relayed::Failed(_) if failures.len() >= FAILURES_MAX => uncounted += 1,
            Relayed::Failed(failed) => failures.push(failed),
            Relayed::Theirs => blamed = target,
            Relayed::Done(summary) => {
                if uncounted > 0 {
                    failures.push(more(uncounted));
                }
                return Ok(Summary {
                    failures,
                    ..summary
                });
            }
            Relayed::Waiting => {}
            Relayed::Which => match list {
                Some(list) => list.ask(),
                None => return Err(source.blame(out_of_turn())),
            },
            Relayed::Caller(_) | Relayed::Expected | Relayed::Guest | Relayed::Take(_) => {
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
    fn ask(self, hello: &Hello, request: Request) -> Result<[u8; 32], Error> {
        let Message::Relayed(Relayed::Caller(caller)) = self.hello(hello, request)? else {
            return Err(self.blame(out_of_turn()));
        };
        Ok(caller)
    }

    /// Has the target expect the source.
    fn expect(self, hello: &Hello, caller: [u8; 32], place: Target) -> Result<(), Error> {
        let Message::Welcome(_) = self.hello(hello, Request::Expect(caller, place))? else {
            return Err(self.blame(out_of_turn()));
        };
        Ok(())
    }

    fn hello(self, hello: &Hello, request: Request) -> Result<Message, Error> {
        let hello = Hello {
            request,
            ..hello.clone()
        };
        self.say(&Message::Hello(hello))?;
        self.session.hear().map_err(|error| self.blame(error))
    }

    fn say(self, message: &Message) -> Result<(), Error> {
        self.session.say(message).map_err(|error| self.blame(error))
    }

    /// Fails if the target has said that it fails; that it has gone, the source will notice.
    fn look(self) -> Result<(), Error> {
        // whoever says no end of things is looked at again later
        for _ in 0..LOOKS_MAX {
            match self.session.heard() {
                Ok(Some(Message::Relayed(Relayed::Waiting))) => {}
                Ok(Some(_)) => return Err(self.blame(out_of_turn())),
                Err(error) if self.session.was_told() => return Err(self.blame(error)),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(())
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
