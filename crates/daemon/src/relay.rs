//! Sending to another daemon, for somebody who only looks on.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use lighthaul_files::list::Heard;
use lighthaul_files::listed::Finds;
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls;
use lighthaul_session::door::Door;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::message::{self as own, Hello};
use lighthaul_session::session::Session;
use lighthaul_transfer::budget::Budget;
use lighthaul_transfer::relay::{Message, Relay, relayed};
use lighthaul_transfer::send;
use lighthaul_transfer::watch::{Sight, Summary, Watcher};
use tracing::{debug, info};

use crate::client::call;
use crate::sending::sending;

/// How long a target that cannot be reached takes to be given up, whatever is wrong with it: neither the
/// words nor the time tell a caller what else there is in our network.
const CALL: Duration = Duration::from_secs(10);
/// How long the onlooker may take to announce us to the target.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often we look whether the onlooker has left.
const LOOK: Duration = Duration::from_millis(100);
/// How often the onlooker hears that we are there, also while nothing moves.
const ALIVE: Duration = Duration::from_secs(10);
/// How long the onlooker may take to hear how it ended.
const FAREWELL: Duration = Duration::from_secs(10);
/// The longest name of a host (RFC 1035, 3.1).
const NAME_MAX: usize = 255;

/// Sends what `finds` has to the target of `relay`, and tells the peer of `session` how it goes.
pub(crate) fn run(
    session: &Session,
    (finds, list): (Finds, Option<Heard>),
    (relay, budget): (Relay, Budget),
    (hello, mut options): (&Hello, Options),
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let heard = session.clock.now();
    if relay.host.len() > NAME_MAX {
        return Err(Error::new(Code::Usage, "this cannot be sent on"));
    }
    let identity = Identity::generate();
    let caller = *tls::fingerprint(&identity)?.octets();
    session.say(&Message::Caller { key: caller })?;
    let Message::Expected = session.hear_for(PATIENCE)? else {
        return Err(Error::new(Code::Protocol, "the peer spoke out of turn"));
    };
    let far = reach(session, &relay, identity)?;
    info!("sending on to {} port {}", relay.host, relay.port);
    let door = Door::Caller(relay.udp);
    let summary = watched(session, list, &far, || {
        far.say(&own::Message::Guest)?;
        let hello_there = relayed(hello, relay.target, options.clone());
        far.say(&own::Message::Hello(hello_there))?;
        let own::Message::Welcome { protocols } = far.hear()? else {
            return Err(Error::new(Code::Protocol, "the target did not agree"));
        };
        let mut both = |sight: Sight| {
            watcher(sight.clone());
            show(session, &far, sight);
        };
        // a vector begins so long after it was said, which was half a round trip before it was heard
        let age = session.clock.now().since(heard) + session.rtt / 2;
        if let Some(begins_in) = &mut options.trc_in {
            *begins_in = begins_in.saturating_sub(age.as_nanos() as i64);
        }
        let settings = send::Settings {
            theirs: protocols,
            said: far.clock.now(),
            ..sending(&far, (hello, options), budget)?
        };
        send::send(&far, &door, finds, settings, &mut both)
    });
    match &summary {
        Ok(summary) => conclude(session, summary)?,
        Err(_) if far.was_told() => session.say(&Message::Theirs)?,
        Err(error) => far.give_up(error),
    }
    summary
}

/// Calls the target, which must show its key.
fn reach(session: &Session, relay: &Relay, identity: Identity) -> Result<Session, Error> {
    let (called, answer) = sync_channel(1);
    let (host, port) = (relay.host.clone(), relay.port);
    let deadline = session.clock.now() + CALL;
    let thread = thread::Builder::new().name("call".into());
    let calling = thread.spawn(move || {
        // who does not wait any more has given up
        called.send(call(&host, port, &identity)).ok();
    });
    calling.map_err(|e| Error::new(Code::Io, format!("nobody could be called: {e}")))?;
    let key = Fingerprint::from_octets(relay.key);
    match answer.recv_timeout(CALL) {
        Ok(Ok(far)) if far.peer == key => return Ok(far),
        Ok(Ok(far)) => debug!("{} shows another key, {}", relay.host, far.peer),
        Ok(Err(error)) => debug!("{error}"),
        Err(_) => debug!("{} does not answer", relay.host),
    }
    match session.hear_for::<Message>(session.clock.until(deadline)) {
        Err(error) if error.code == Code::TimedOut && !session.was_told() => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(Error::new(Code::Protocol, "the peer spoke out of turn")),
    }
    let text = format!(
        "{} port {} cannot be reached from there, or is not the one that you know",
        relay.host, relay.port
    );
    Err(Error::new(Code::Network, text))
}

/// Runs `work` with the target, and halts it once the onlooker stops it or leaves; takes in the onlooker's list.
fn watched<T>(
    session: &Session,
    mut list: Option<Heard>,
    far: &Session,
    work: impl FnOnce() -> T,
) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut watch = || -> Result<(), Error> {
            let mut alive = session.clock.now();
            while !done.load(Relaxed) {
                if session.clock.now().since(alive) > ALIVE {
                    alive = session.clock.now();
                    session.say(&own::Message::Alive { work: 0 }).ok();
                }
                let ask = || session.say(&Message::Which);
                let asked = list.as_mut().map_or(Ok(()), |list| list.ask(ask));
                let heard = asked.and_then(|()| session.hear_for(LOOK));
                let taken = match (heard, &mut list) {
                    (Ok(Message::Take(page)), Some(list)) => list.take(page),
                    (Ok(_), _) => Err(Error::new(Code::Protocol, "the peer spoke out of turn")),
                    (Err(error), _) if error.code == Code::TimedOut && !session.was_told() => {
                        Ok(())
                    }
                    (Err(error), _) => Err(error),
                };
                taken?;
            }
            Ok(())
        };
        scope.spawn(move || {
            if let Err(error) = caught("onlooker", &mut watch) {
                far.halt.stop(error);
            }
        });
        let _leave = Leave(&done);
        work()
    })
}

/// Ends the watch over the onlooker, however the work ended.
struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Shows the onlooker what we see. What is only of the moment is left out when it does not keep up.
fn show(session: &Session, far: &Session, sight: Sight) {
    let passing = matches!(sight, Sight::Moving(_) | Sight::Round { .. });
    while !session.stream.has_room() {
        if passing || far.halt.check().is_err() {
            return;
        }
        thread::park_timeout(LOOK / 10);
    }
    // it comes again at the end
    if !matches!(sight, Sight::Failed(_)) {
        session.say(&Message::Seen(sight)).ok();
    }
}

/// Says how it ended; failures one by one, since there may be any number of them.
fn conclude(session: &Session, summary: &Summary) -> Result<(), Error> {
    for failed in &summary.failures {
        while !session.stream.has_room() {
            session.halt.check()?;
            thread::park_timeout(LOOK / 10);
        }
        session.say(&Message::Failed(failed.clone()))?;
    }
    let done = Summary {
        failures: Vec::new(),
        ..summary.clone()
    };
    session.say(&Message::Done(done))?;
    session.control.flush(FAREWELL);
    Ok(())
}
