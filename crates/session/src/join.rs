//! Further connections of a session. Each proves that it belongs to the session before anything
//! else.
//!
//! The client of the session connects again; the server hands each connection to the session that
//! waits for it.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lighthaul_io::control::{Control, QueueLimit};
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::wait::pause;
use lighthaul_proto::stripe::width::NEAR;

use crate::dialog::Dialog;
use crate::error::Error;
use crate::fault::PeerFault;
use crate::message::Message;
use crate::role::{Joins, Role};
use crate::session::Session;

/// Longest wait for a welcome.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(3);
const ROUND_TRIPS: u32 = 8;
/// Interval at which a client checks whether the server has agreed to its request.
const WELCOME_CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Interval at which a waiting side checks if it is halted.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest wait until this side receives an announced connection.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the peer's list of joined connections.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens up to `count` further connections, and agrees with the peer on the connections that joined. Their frames are
/// encrypted unless `plain`.
pub fn join(
    dialog: &Dialog<'_>,
    role: &Role,
    count: u8,
    plain: bool,
) -> Result<Vec<Control>, Error> {
    let session = dialog.session;
    let joined = match role {
        _ if count == 0 => return Ok(Vec::new()),
        Role::Client(_) => call(dialog, count)?,
        Role::Server(_, joins) => hear(dialog, joins)?,
    };
    // over a short path no connection falls far behind the others
    let narrow = joined.len() > 1 && session.rtt >= NEAR;
    let narrowed = joined.into_iter().map(|mut joined| {
        joined.secrets.set_cipher(session.secrets.cipher());
        let keys = joined.secrets.object(0);
        joined.control.limit_queues(if narrow {
            QueueLimit::Least
        } else {
            QueueLimit::Small
        });
        let keys = (!plain).then_some((keys.seal, keys.open));
        joined.control.leave_tls(keys);
        joined.control
    });
    Ok(narrowed.collect())
}

/// Connects, and informs the peer about the connections that were answered.
fn call(dialog: &Dialog<'_>, count: u8) -> Result<Vec<Session>, Error> {
    let session = dialog.session;
    // the server knows a session by then; another thread hears of it
    let until = session.clock.now() + LIST_TIMEOUT;
    while session.awaits_welcome() && session.clock.now() < until {
        dialog.check()?;
        pause(WELCOME_CHECK_INTERVAL);
    }
    let (most, patience) = session.join_limits();
    let count = count.min(most);
    let (answered, answers) = channel::<(u8, Result<Session, Error>)>();
    let work = Cancellation::current().part();
    // attempts that are not waited for end with their threads
    let _stop = work.cancel_on_drop();
    for number in 0..count {
        let (call, answered) = (session.call_again()?, answered.clone());
        let join = session.secrets.join(number);
        let attempt = move || {
            let joined = call()?;
            joined.say(&Message::Join(join))?;
            let Message::Welcome = joined.hear_for(WELCOME_TIMEOUT)? else {
                return Err(PeerFault::Unexpected("a welcome").into());
            };
            Ok(joined)
        };
        let thread = thread::Builder::new().name("join".into());
        let work = work.clone();
        let spawned = thread.spawn(move || {
            // a caller that stopped waiting has enough connections
            answered.send((number, work.cover(attempt))).ok();
        });
        if spawned.is_err() {
            break;
        }
    }
    drop(answered);
    let deadline = session.clock.now() + patience.max(session.rtt * ROUND_TRIPS);
    let mut joined = Vec::new();
    loop {
        dialog.check()?;
        let until = deadline.min(session.clock.now() + CHECK_INTERVAL);
        match answers.recv_timeout(session.clock.until(until)) {
            Ok((number, Ok(answer))) => joined.push((number, answer)),
            Ok((_, Err(_))) => {}
            Err(RecvTimeoutError::Timeout) if until < deadline => {}
            Err(_) => break,
        }
    }
    joined.sort_by_key(|(number, _)| *number);
    let mask = joined
        .iter()
        .fold(0, |mask, (number, _)| mask | 1_u32 << number);
    dialog.say(&Message::Joined { connections: mask })?;
    Ok(joined.into_iter().map(|(_, joined)| joined).collect())
}

/// Receives the list of connections that the peer uses, and returns their sessions.
fn hear(dialog: &Dialog<'_>, joins: &Joins) -> Result<Vec<Session>, Error> {
    let session = dialog.session;
    let mut said: Message = dialog.hear_for(LIST_TIMEOUT)?;
    while let Message::Train { .. } | Message::Reached { .. } | Message::Exploring = said {
        // a busy host sees a train in two parts, and reports both; a report of probes may be late
        said = dialog.hear_for(LIST_TIMEOUT)?;
    }
    let Message::Joined { connections: mask } = said else {
        return Err(PeerFault::Unexpected("the list of joined connections").into());
    };
    let mut joined: Vec<(u8, Session)> = Vec::new();
    let deadline = session.clock.now() + HANDOVER_TIMEOUT;
    while joined.len() < mask.count_ones() as usize {
        let Ok((number, came)) = joins.recv_timeout(session.clock.until(deadline)) else {
            return Err(PeerFault::Invalid("the number of a connection that did not join").into());
        };
        let known = joined.iter().any(|(known, _)| *known == number);
        if mask >> number & 1 == 1 && !known {
            joined.push((number, came));
        }
    }
    joined.sort_by_key(|(number, _)| *number);
    Ok(joined.into_iter().map(|(_, came)| came).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::Arc;

    use lighthaul_base::Instant;
    use lighthaul_io::crypto::identity::Identity;
    use lighthaul_io::crypto::tls::Side;
    use lighthaul_io::error::Error as World;
    use lighthaul_io::host::clock::Clock;
    use lighthaul_io::net::tcp::with_handshake_timeouts;

    use super::*;
    use crate::session::Call;

    /// Route to an address, whose further connections are waited for only shortly.
    #[derive(Debug)]
    struct Impatient(SocketAddr);

    impl Call for Impatient {
        #[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
        fn call(&self) -> Result<TcpStream, Error> {
            let tcp = TcpStream::connect(self.0).map_err(|why| World::world("test", why))?;
            Ok(with_handshake_timeouts(tcp)?)
        }

        fn patience(&self) -> Duration {
            Duration::from_millis(50)
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
    fn connections_that_are_not_waited_for_end_with_all_that_they_keep() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let route = Arc::new(Impatient(listener.local_addr().unwrap()));
        let calling = thread::spawn(|| Session::start_by(route, &Identity::generate()).unwrap());
        let tcp = listener.accept().unwrap().0;
        let _called = Session::start(tcp, Side::Server, &Identity::generate()).unwrap();
        let mut session = calling.join().unwrap();
        let kept = Arc::new(());
        session.keep(Arc::clone(&kept) as Arc<_>);
        let holders = Arc::strong_count(&kept);
        // the peer says nothing on further connections
        let joined = call(&session.dialog(), 2).unwrap();
        assert!(joined.is_empty());
        for _ in 0..2 {
            let mut further = listener.accept().unwrap().0;
            further
                .set_read_timeout(Some(Duration::from_mins(1)))
                .unwrap();
            // the first message of the handshake, and the end
            while further.read(&mut [0; 1024]).unwrap() > 0 {}
        }
        let clock = Clock::start();
        while Arc::strong_count(&kept) > holders {
            assert!(clock.now() < Instant::ZERO + Duration::from_mins(1));
            pause(CHECK_INTERVAL);
        }
        drop(session);
    }
}
