//! Leases a circuit from an NSI provider until the program is interrupted or the lease ends.
//!
//! ```text
//! lease SETTINGS.toml
//! ```
//!
//! Settings: `nsa`, `provider`, `url`, `token`, `listen`, `reply_to`, `source`, `dest`,
//! `capacity_mbps`, `minutes`; and `scheduler`, `scheduler_token`, `link` for a scheduler that gets
//! the capacity.

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

use lighthaul_booking_client::client::Client;
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::wait::pause;
use lighthaul_nsi::message::{Criteria, Directionality, P2p, Reserve, Schedule};
use lighthaul_nsi::requester::link::open_link;
use lighthaul_nsi::requester::{Inbox, Requester, RequesterConfig};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
// fields: one for each setting
struct Settings {
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

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: lease SETTINGS.toml")?;
    let settings: Settings = toml::from_str(&fs::read_to_string(path)?)?;
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
    let lease = requester.lease(wanted(&settings))?;
    println!(
        "leased {} Mb/s from {} till {} as {}",
        lease.capacity_mbps, lease.start, lease.end, lease.connection_id
    );
    if let (Some(url), Some(link)) = (&settings.scheduler, &settings.link) {
        let token = settings.scheduler_token.clone();
        let scheduler = Client::new(url, ServerTrust::certificate(), token)?;
        if let Err(why) = open_link(&scheduler, link, &lease) {
            requester.terminate(&lease.connection_id)?;
            return Err(why.into());
        }
    }
    while unix_nanos() < lease.end.0 {
        pause(Duration::from_secs(1));
    }
    Ok(requester.terminate(&lease.connection_id)?)
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
/// Maximum length of a message with its head, in bytes.
const MESSAGE_MAX: u64 = 128 << 10;
