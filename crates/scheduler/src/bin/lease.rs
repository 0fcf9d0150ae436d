//! Leases a circuit from an NSI provider, and offers its capacity as a link of a scheduler.
//!
//! ```text
//! lighthaul-lease SETTINGS.toml
//!
//! reserve -> commit -> provision -> open the link ... close the link -> release -> terminate
//! ```
//!
//! SIGINT and SIGTERM end the lease. A program that was killed continues its lease when it starts
//! again: the provider knows it by its `id`. If the provider ends the lease, the link closes.
//!
//! Settings: `id`, a URN that names the lease; `nsa`, `provider`, `url`, `token`, `listen`,
//! `reply_to`, `source`, `dest`, `capacity_mbps`, `minutes`; and `scheduler`, `scheduler_token`,
//! `link` for a scheduler that gets the capacity.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program with a listener"
)]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, thread};

use lighthaul_base::Instant;
use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;
use lighthaul_nsi::machine::LifecycleState;
use lighthaul_nsi::message::{Criteria, Directionality, P2p, Reserve, Schedule};
use lighthaul_nsi::requester::link::{close_link, open_link};
use lighthaul_nsi::requester::{Inbox, Lease, LeaseError, Requester, RequesterConfig};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
// fields: one for each setting
struct Settings {
    id: String,
    nsa: String,
    provider: String,
    url: String,
    token: Option<String>,
    listen: String,
    reply_to: String,
    source: String,
    dest: String,
    capacity_mbps: u64,
    minutes: u64,
    scheduler: Option<String>,
    scheduler_token: Option<String>,
    link: Option<String>,
}

/// Link of a scheduler that has the capacity of the lease.
struct Link {
    scheduler: Client,
    name: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args()
        .nth(1)
        .ok_or("usage: lighthaul-lease SETTINGS.toml")?;
    let settings: Settings = toml::from_str(&fs::read_to_string(path)?)?;
    interrupt::handle_signals()?;
    let config = RequesterConfig {
        nsa: settings.nsa.clone(),
        provider: settings.provider.clone(),
        url: settings.url.clone(),
        token: settings.token.clone(),
        reply_to: settings.reply_to.clone(),
        step_max: STEP_MAX,
    };
    let requester = Requester::new(config, ServerTrust::certificate())?;
    let (listener, inbox) = (TcpListener::bind(&settings.listen)?, requester.inbox());
    thread::spawn(move || listen(&listener, &inbox));
    let link = link(&settings)?;
    let lease = obtain(&requester, &settings)?;
    if let Some(link) = &link
        && let Err(why) = link.open(&lease)
    {
        requester.terminate(&lease.connection_id)?;
        return Err(why.into());
    }
    let ended = keep(&requester, &lease);
    if let Some(link) = &link {
        link.close(&lease)?;
    }
    ended?;
    let id = &lease.connection_id;
    // what carries packets stops before its capacity is given up
    let released = requester.release(id);
    requester.terminate(id)?;
    println!("ended the lease {id}");
    match released {
        // the time has passed, so nothing carries packets any more
        Err(LeaseError::Refused { .. }) => Ok(()),
        released => Ok(released?),
    }
}

/// Continues the lease of an earlier run, or makes one.
fn obtain(requester: &Requester, settings: &Settings) -> Result<Lease, LeaseError> {
    let wanted = wanted(settings);
    let (word, lease) = match requester.resume(&wanted)? {
        Some(lease) => ("continues with", lease),
        None => ("leased", requester.lease(wanted)?),
    };
    println!(
        "{word} {} Mb/s from {} till {} as {}",
        lease.capacity_mbps, lease.start, lease.end, lease.connection_id
    );
    Ok(lease)
}

/// Waits until the lease ends or a signal comes. Fails if the provider has ended it.
fn keep(requester: &Requester, lease: &Lease) -> Result<(), String> {
    let clock = Clock::start();
    let mut look_at = Instant::ZERO + LOOK;
    while unix_nanos() < lease.end.0 && !interrupt::is_requested() {
        pause(Duration::from_millis(100));
        if clock.now() < look_at {
            continue;
        }
        look_at = clock.now() + LOOK;
        let lifecycle = match requester.query(&lease.connection_id) {
            Ok(summary) => summary.states.lifecycle,
            // a provider that is away keeps its promise
            Err(LeaseError::Network { .. } | LeaseError::Protocol { .. }) => continue,
            Err(why) => return Err(why.to_string()),
        };
        if !matches!(
            lifecycle,
            LifecycleState::Created | LifecycleState::PassedEndTime
        ) {
            return Err(format!(
                "the provider has ended the lease {}: its state is {}; ask its operator",
                lease.connection_id,
                lifecycle.name()
            ));
        }
    }
    Ok(())
}

impl Link {
    fn open(&self, lease: &Lease) -> Result<(), ClientError> {
        patiently(|| open_link(&self.scheduler, &self.name, lease))?;
        println!("offers the lease as link {}", self.name);
        Ok(())
    }

    fn close(&self, lease: &Lease) -> Result<(), ClientError> {
        patiently(|| close_link(&self.scheduler, Timestamp(unix_nanos()), &self.name, lease))
    }
}

/// Tries again while the scheduler cannot be reached, as during its restart.
fn patiently(act: impl Fn() -> Result<(), ClientError>) -> Result<(), ClientError> {
    let clock = Clock::start();
    loop {
        match act() {
            Err(ClientError::Network { .. }) if clock.now().since(Instant::ZERO) < PATIENCE => {
                pause(Duration::from_millis(500));
            }
            done => return done,
        }
    }
}

/// Returns the link of the settings.
fn link(settings: &Settings) -> Result<Option<Link>, Box<dyn Error>> {
    match (&settings.scheduler, &settings.link) {
        (Some(url), Some(name)) => {
            let token = settings.scheduler_token.clone();
            Ok(Some(Link {
                scheduler: Client::new(url, ServerTrust::certificate(), token)?,
                name: name.clone(),
            }))
        }
        (None, None) => Ok(None),
        _ => Err("scheduler and link belong together: give both, or none".into()),
    }
}

/// Returns the request of the settings.
fn wanted(settings: &Settings) -> Reserve {
    let long = Duration::from_mins(settings.minutes).as_nanos() as u64;
    let p2p = P2p {
        capacity_mbps: settings.capacity_mbps,
        directionality: Directionality::Bidirectional,
        symmetric_path: None,
        source: settings.source.clone(),
        dest: settings.dest.clone(),
        ero: Vec::new(),
        unsupported: Vec::new(),
    };
    let schedule = Schedule {
        start: None,
        end: Some(Timestamp(unix_nanos().saturating_add(long))),
    };
    let criteria = Criteria {
        schedule,
        p2p: Some(p2p),
        ..Criteria::default()
    };
    Reserve {
        global_id: Some(settings.id.clone()),
        criteria,
        ..Reserve::default()
    }
}

/// Gives messages to the inbox, one at a time.
fn listen(listener: &TcpListener, inbox: &Arc<Inbox>) {
    for tcp in listener.incoming().flatten() {
        if let Err(why) = answer(&tcp, inbox) {
            println!("cannot read a confirmation: {why}");
        }
    }
}

fn answer(mut tcp: &TcpStream, inbox: &Inbox) -> Result<(), Box<dyn Error>> {
    tcp.set_read_timeout(Some(READ_MAX))?;
    tcp.set_write_timeout(Some(READ_MAX))?;
    let mut reader = BufReader::new(tcp.take(MESSAGE_MAX));
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    let reply = inbox.accept(&body);
    let status = if reply.is_fault {
        "500 Fault"
    } else {
        "200 OK"
    };
    let length = reply.document.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/xml; charset=utf-8\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    tcp.write_all(head.as_bytes())?;
    Ok(tcp.write_all(reply.document.as_bytes())?)
}

const STEP_MAX: Duration = Duration::from_mins(3);
const READ_MAX: Duration = Duration::from_secs(10);
/// Time between two queries of the lease.
const LOOK: Duration = Duration::from_secs(10);
/// Longest wait for the scheduler.
const PATIENCE: Duration = Duration::from_mins(2);
/// Maximum length of a message with its head, in bytes.
const MESSAGE_MAX: u64 = 128 << 10;
