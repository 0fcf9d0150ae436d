//! Sending to another daemon for a client (third-party transfer), which receives progress reports.
//!
//! `run` calls the target with a key of its own, which the client has announced there:
//!
//! ```text
//! client            this daemon                      target
//!   |<--- SourceKey ----|                               |
//!   |---- Expect (key) -------------------------------->|
//!   |---- Expected ---->|---- Guest, Hello, files ----->|
//!   |<--- Event, Done --|                               |
//! ```
//!
//! If the client stops, disconnects or does not read, the transfer ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use lighthaul_copy::relay::{Message, Relay, copy_request};
use lighthaul_copy::watch::{CopyEvent, Summary, Watcher};
use lighthaul_files::list::ListReceiver;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_send as send;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::halt::Halt;
use lighthaul_session::message::{self as own, Hello};
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;
use tracing::{debug, info};

use crate::client::call;
use crate::error::Fault;
use crate::resource_pool::{Allocation, Granted};
use crate::send_settings::send_settings;

/// Time until the daemon gives up an unreachable target. It and the error are the same for each reason, so that a
/// client learns nothing about the network of the daemon.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time until the client must have announced the relay to the target.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest silence of the client.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Time in which the client must read a report; otherwise the transfer ends.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of checks for messages of the client.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of keepalive messages to the client.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Time for the delivery of the result to the client.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a host name (RFC 1035, 3.1).
const NAME_MAX: usize = 255;

/// Sends the files of `finds` to the target of `relay`, and reports to the client of `session`.
pub(crate) fn run(
    session: &Session,
    (finds, list): (SourceEntries, Option<ListReceiver>),
    (relay, granted): (Relay, Granted),
    (hello, mut options): (&Hello, Options),
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let hello_at = session.clock.now();
    if relay.host.len() > NAME_MAX {
        return Err(Fault::HostName.into());
    }
    let identity = Identity::generate();
    let caller = *tls::fingerprint(&identity)?.octets();
    session.say(&Message::SourceKey { key: caller })?;
    let Message::Expected = session.hear_for(ANNOUNCE_TIMEOUT)? else {
        return Err(Fault::Unexpected("the announcement to the target").into());
    };
    // from here on the client sends keepalives
    session.control.limit_silence(SILENCE_MAX);
    let far = connect(session, &relay, identity, granted.allocation)?;
    info!("sending to {} port {}", relay.host, relay.port);
    let role = Role::Client(relay.udp);
    let summary = monitored(session, list, &far, || {
        far.say(&own::Message::Guest)?;
        let forwarded = copy_request(hello, relay.target, options.clone());
        far.say(&own::Message::Hello(forwarded))?;
        let own::Message::Welcome = far.hear()? else {
            return Err(Fault::Unexpected("an agreement").into());
        };
        let mut both = |sight: CopyEvent| {
            watcher(sight.clone());
            report(session, &far, sight);
        };
        // the times of a rate vector count from its creation: half a round trip before it arrived
        let age = session.clock.now().since(hello_at) + session.rtt / 2;
        if let Some(begins_in) = &mut options.trc_in {
            *begins_in = begins_in.saturating_sub(age.as_nanos() as i64);
        }
        let settings = send::Settings {
            said: far.clock.now(),
            ..send_settings(&far, (hello, options), granted.budget)?
        };
        send::send(&far, role, finds, settings, &mut both)
    });
    match &summary {
        Ok(summary) => conclude(session, summary)?,
        Err(_) if far.was_told() => session.say(&Message::TargetFailed)?,
        Err(error) => far.give_up(error),
    }
    summary
}

/// Connects to the target, and checks its key. The allocation counts the thread and the connections until they end.
fn connect(
    session: &Session,
    relay: &Relay,
    identity: Identity,
    allocation: Arc<Allocation>,
) -> Result<Session, Error> {
    let (called, answer) = sync_channel(1);
    let (host, port) = (relay.host.clone(), relay.port);
    let deadline = session.clock.now() + CONNECT_TIMEOUT;
    let thread = thread::Builder::new().name("call".into());
    let work = Cancellation::current().part();
    // a call that is not waited for ends with its thread
    let _stop = work.cancel_on_drop();
    let calling = thread.spawn(move || {
        let far = work.cover(|| call(&host, port, &identity));
        let far = far.map(|mut far| {
            far.keep(allocation);
            far
        });
        // after the timeout, no thread waits for the result
        called.send(far).ok();
    });
    calling.map_err(Fault::Thread)?;
    let key = Fingerprint::from_octets(relay.key);
    match answer.recv_timeout(CONNECT_TIMEOUT) {
        Ok(Ok(far)) if far.peer == key => return Ok(far),
        Ok(Ok(far)) => debug!("{} has another key, {}", relay.host, far.peer),
        Ok(Err(error)) => debug!("{error}"),
        Err(_) => debug!("{} does not answer", relay.host),
    }
    match session.hear_for::<Message>(session.clock.until(deadline)) {
        Err(error) if error.code() == Code::TimedOut && !session.was_told() => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(Fault::Unexpected("the end of the session").into()),
    }
    let (host, port) = (relay.host.clone(), relay.port);
    Err(Fault::Unreachable { host, port }.into())
}

/// Runs `work` with the target, and halts it when the client stops it or disconnects. Receives the client's file list
/// at the same time.
fn monitored<T>(
    session: &Session,
    mut list: Option<ListReceiver>,
    far: &Session,
    work: impl FnOnce() -> T,
) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut watch = || -> Result<(), Error> {
            let mut alive = session.clock.now();
            while !done.load(Relaxed) {
                if session.clock.now().since(alive) > KEEPALIVE_INTERVAL {
                    alive = session.clock.now();
                    session.say(&own::Message::Keepalive { work: 0 }).ok();
                }
                let ask = || session.say(&Message::RequestPaths);
                let asked = list.as_mut().map_or(Ok(()), |list| list.request_pages(ask));
                let message = asked.and_then(|()| session.hear_for(CHECK_INTERVAL));
                let taken = match (message, &mut list) {
                    (Ok(Message::Paths { page }), Some(list)) => list.receive(page),
                    (Ok(_), _) => Err(Fault::Unexpected("a part of the file list").into()),
                    (Err(error), _) if error.code() == Code::TimedOut && !session.was_told() => {
                        Ok(())
                    }
                    (Err(error), _) => Err(error),
                };
                taken?;
            }
            Ok(())
        };
        scope.spawn(move || {
            if let Err(error) = caught("client", &mut watch) {
                far.halt.stop(error);
            }
        });
        let _end = EndOnDrop(&done);
        work()
    })
}

/// Ends the monitoring of the client, however the work ends.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Reports progress to the client. Reports that the next one replaces are dropped if the client
/// reads too slowly. If the client does not read another report in time, the transfer ends.
fn report(session: &Session, far: &Session, sight: CopyEvent) {
    let passing = matches!(
        sight,
        CopyEvent::Moving(_) | CopyEvent::Current(_) | CopyEvent::Round { .. }
    );
    if passing && !session.stream.has_room() || far.halt.check().is_err() {
        return;
    }
    if let Err(error) = wait_for_room(session, &far.halt, READ_TIMEOUT) {
        far.halt.stop(error);
        return;
    }
    // failures are sent at the end
    if !matches!(sight, CopyEvent::Failed(_)) {
        session.say(&Message::Event(sight)).ok();
    }
}

/// Sends the result. Failures have a message each, since their number has no bound.
fn conclude(session: &Session, summary: &Summary) -> Result<(), Error> {
    for failed in &summary.failures {
        wait_for_room(session, &session.halt, READ_TIMEOUT)?;
        session.say(&Message::Failed(failed.clone()))?;
    }
    let done = Summary {
        failures: Vec::new(),
        ..summary.clone()
    };
    session.say(&Message::Done(done))?;
    session.control.flush(CLOSE_TIMEOUT);
    Ok(())
}

/// Waits until the client has read enough for another message. Fails once it reads nothing for `timeout`, or `halt` is
/// set.
fn wait_for_room(session: &Session, halt: &Halt, timeout: Duration) -> Result<(), Error> {
    let until = session.clock.now() + timeout;
    while !session.stream.wait_for_room(CHECK_INTERVAL) {
        halt.check()?;
        if session.clock.now() >= until {
            return Err(Fault::Unread.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use lighthaul_copy::watch::Failed;
    use lighthaul_io::crypto::tls::Side;

    use super::*;

    /// Returns both ends of a session: the daemon's, and that of a client that reads nothing.
    #[expect(clippy::disallowed_methods, reason = "a test is a world of its own")]
    fn pair() -> [Session; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = thread::spawn(move || {
            let tcp = TcpStream::connect(address).unwrap();
            Session::start(tcp, Side::Client, &Identity::generate()).unwrap()
        });
        let tcp = listener.accept().unwrap().0;
        let daemon = Session::start(tcp, Side::Server, &Identity::generate()).unwrap();
        [daemon, client.join().unwrap()]
    }

    #[test]
    fn client_that_does_not_read_ends_the_report() {
        let [daemon, _client] = pair();
        let failed = Failed {
            path: vec![b'x'; 4000],
            code: Code::Open as u8,
            why: "y".repeat(4000),
        };
        let send = |_| {
            wait_for_room(&daemon, &daemon.halt, Duration::from_millis(500))?;
            daemon.say(&Message::Failed(failed.clone()))
        };
        // 80 MB, much more than the queues of both sides hold
        let sent = (0..10_000).try_for_each(send);
        let error = sent.unwrap_err();
        assert_eq!(error.code(), Code::TimedOut, "{error}");
    }

    #[test]
    fn halted_session_does_not_wait_for_the_queue() {
        let [daemon, _client] = pair();
        daemon.halt.stop(Fault::Silent.into());
        let long = Message::Failed(Failed {
            path: Vec::new(),
            code: Code::Open as u8,
            why: "y".repeat(500_000),
        });
        // more than the queues of both sides hold: the kernel makes room for a while
        let error = (0..1000).find_map(|_| {
            while daemon.stream.wait_for_room(Duration::ZERO) {
                daemon.say(&long).unwrap();
            }
            wait_for_room(&daemon, &daemon.halt, Duration::from_mins(5)).err()
        });
        assert_eq!(
            error.unwrap().to_string(),
            Error::from(Fault::Silent).to_string()
        );
    }
}
