//! Loss of a path: short datagrams at a steady pace, which the peer counts.
//!
//! ```text
//! client                                  server
//!   | Count ------------------------------> |
//!   | <------------------------------ Count |  from now on it counts
//!   | datagrams, one per PACE ~~~~~~~~~~~~> |
//!   | Counted, after the last has arrived -> |
//!   | <---------- Counted, with their number |
//! ```
//!
//! At this pace they fill no queue, so the loss is that of the path and not of a burst.

use std::collections::BTreeSet;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::wait::wait;
use lighthaul_io::net::probe::connect;

use crate::checkup::message::{Message, unexpected};
use crate::error::Error;
use crate::fault::PeerFault;
use crate::role::Role;
use crate::session::Session;

/// Datagrams of one count.
pub const DATAGRAMS: u16 = 100;
/// Time between two datagrams.
const PACE: Duration = Duration::from_millis(10);
/// Wait for the last one, besides the round-trip time.
const LAST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which a counting side looks for a message.
const TICK: Duration = Duration::from_millis(20);
/// Maximum number of datagrams that are counted.
const COUNTED_MAX: usize = 1000;

/// Sends [`DATAGRAMS`], and returns how many of them arrived.
pub(super) fn ask(session: &Session) -> Result<u16, Error> {
    session.say(&Message::Count)?;
    let Message::Count = session.hear_for(PATIENCE)? else {
        return Err(unexpected());
    };
    let mut local = session.control.local();
    local.set_port(0);
    let udp = connect(local, session.peer_address()).map_err(failed)?;
    let mut prober = session.secrets.prober().for_counting();
    let from = session.clock.now();
    for nth in 1..=u32::from(DATAGRAMS) {
        // a datagram that this host refuses to send has not arrived either
        prober.send_counted(&udp).ok();
        let next = from + PACE * nth;
        pause(session, next)?;
    }
    pause(session, session.clock.now() + session.rtt + LAST_WAIT)?;
    session.say(&Message::Counted { datagrams: 0 })?;
    match session.hear_for(PATIENCE)? {
        Message::Counted { datagrams } if datagrams <= DATAGRAMS => Ok(datagrams),
        Message::Counted { .. } => {
            Err(PeerFault::Invalid("more datagrams than were sent to it").into())
        }
        Message::Time { .. }
        | Message::Explore
        | Message::Facts(_)
        | Message::SendTo { .. }
        | Message::End
        | Message::Count => Err(unexpected()),
    }
}

/// Counts datagrams until the client asks for their number, at most until the given time.
pub(super) fn answer(session: &Session, role: &Role, until: Instant) -> Result<(), Error> {
    let Role::Server(arrivals, _) = role else {
        return Err(unexpected());
    };
    let prober = session.secrets.prober().for_counting();
    session.say(&Message::Count)?;
    let mut numbers = BTreeSet::new();
    let mut is_over = false;
    while !is_over && session.clock.now() < until {
        session.halt.check()?;
        is_over = match session.heard()? {
            None => false,
            Some(Message::Counted { .. }) => true,
            Some(_) => return Err(unexpected()),
        };
        // datagrams that arrived before the message wait in the channel
        let mut patience = if is_over { Duration::ZERO } else { TICK };
        for _ in 0..COUNTED_MAX {
            match arrivals.recv_timeout(patience) {
                Ok((_, mut octets)) => {
                    let number = prober.counted(&mut octets);
                    numbers.extend(number.filter(|_| numbers.len() < COUNTED_MAX));
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(unexpected()),
            }
            patience = Duration::ZERO;
        }
    }
    let datagrams = numbers.len() as u16;
    session.say(&Message::Counted { datagrams })
}

/// Waits until `at`, unless the session is halted.
fn pause(session: &Session, at: Instant) -> Result<(), Error> {
    while session.clock.now() < at {
        session.halt.check()?;
        wait(session.clock, &mut [], at).map_err(failed)?;
    }
    Ok(())
}

fn failed(error: std::io::Error) -> Error {
    World::world("cannot send datagrams to be counted", error).into()
}
