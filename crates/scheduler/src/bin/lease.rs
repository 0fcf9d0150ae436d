//! Leases a circuit from an NSI provider, and offers its capacity as a link of a scheduler.
//!
//! ```text
//! lighthaul-lease SETTINGS.toml
//!
//! reserve -> commit -> provision -> open the link ... close the link -> release -> terminate
//! ```
//!
//! The link is open while the circuit carries packets. It closes if the provider reports for a while that the circuit
//! carries none, and opens again later.
//!
//! SIGINT and SIGTERM end the lease. A program that was killed continues its lease when it starts
//! again: the provider knows it by its `id`. If the provider ends the lease, the link closes.
//!
//! Settings: `id`, a URN that names the lease; `nsa`, `provider`, `url`, `token`, `listen`,
//! `reply_to`, `source`, `dest`, `rate` (`1Gb/s`, in whole Mb/s), `time` (`10h`); and `scheduler`,
//! `scheduler_token`, `link` for a scheduler that gets the capacity. `grace` is the time after which the link of a
//! circuit without packets closes (`30s`).

#![expect(clippy::disallowed_methods, reason = "a program with a listener")]

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write, stderr, stdout};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::{env, fmt, fs, thread};

use lighthaul_base::{Instant, Rate, duration};
use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::leased_link::patiently;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;
use lighthaul_nsi::machine::LifecycleState;
use lighthaul_nsi::message::{Criteria, Directionality, P2p, Reserve, Schedule};
use lighthaul_nsi::requester::link::{close_link, open_link};
use lighthaul_nsi::requester::{
    GateStep, Inbox, Lease, LeaseError, LinkGate, Requester, RequesterConfig,
};
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
    rate: String,
    time: String,
    scheduler: Option<String>,
    scheduler_token: Option<String>,
    link: Option<String>,
    grace: Option<String>,
}

/// Link of a scheduler that has the capacity of the lease.
struct Link {
    scheduler: Client,
    name: String,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            warn(why);
            ExitCode::FAILURE
        }
    }
}

const HELP: &str = "\
Lease a circuit from an NSI provider, and offer its capacity as a link of a scheduler

Usage: lighthaul-lease SETTINGS.toml

It runs until the lease ends; SIGINT and SIGTERM end the lease. A program that was killed continues its lease when it
starts again. The guide describes the settings: id, nsa, provider, url, token, listen, reply_to, source, dest, rate,
time, scheduler, scheduler_token, link, grace.";

fn run() -> Result<(), Box<dyn Error>> {
    let path = env::args()
        .nth(1)
        .ok_or("usage: lighthaul-lease SETTINGS.toml")?;
    if ["-h", "--help"].contains(&path.as_str()) {
        say(HELP);
        return Ok(());
    }
    let text = fs::read_to_string(&path).map_err(|why| format!("cannot read {path}: {why}"))?;
    let settings: Settings = toml::from_str(&text).map_err(|why| format!("{path}: {why}"))?;
    let (wanted, grace) = (wanted(&settings)?, grace(&settings)?);
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
    let lessee = Lessee {
        requester,
        link,
        grace,
    };
    let (lease, mut gate) = lessee.obtain(wanted)?;
    let kept = lessee.keep(&lease, &mut gate);
    let ended = lessee.end(&lease, gate.may_be_open());
    if let (Err(_), Err(second)) = (&kept, &ended) {
        warn(second);
    }
    kept.and(ended)
}

/// Prints a line. A reader that has gone must not end the lease.
fn say(line: impl fmt::Display) {
    writeln!(stdout(), "{line}").ok();
}

/// Prints a line of standard error.
fn warn(line: impl fmt::Display) {
    writeln!(stderr(), "lighthaul-lease: {line}").ok();
}

/// Requester, and the link that offers the leased capacity.
struct Lessee {
    requester: Requester,
    link: Option<Link>,
    /// Time without packets after which the link closes.
    grace: Duration,
}

impl Lessee {
    /// Continues the lease of an earlier run, or makes one. Ends what is left of others.
    fn obtain(&self, wanted: Reserve) -> Result<(Lease, LinkGate), Box<dyn Error>> {
        let earlier = self.requester.earlier(&wanted)?;
        for useless in &earlier.useless {
            if let Some(lease) = &useless.lease {
                self.close(lease)?;
            }
            self.requester.terminate(&useless.connection_id)?;
        }
        let (word, lease, gate) = if let Some(lease) = earlier.lease {
            self.requester.resume(&lease)?;
            ("continues with", lease, LinkGate::unknown(self.grace))
        } else {
            let lease = self.requester.lease(wanted)?;
            ("leased", lease, LinkGate::closed(self.grace))
        };
        say(format_args!(
            "{word} {} Mb/s from {} till {} as {}",
            lease.capacity_mbps, lease.start, lease.end, lease.connection_id
        ));
        Ok((lease, gate))
    }

    fn offer(&self, lease: &Lease) -> Result<(), Box<dyn Error>> {
        if let Some(link) = &self.link {
            patiently(|| open_link(&link.scheduler, &link.name, lease))?;
            say(format_args!("offers the lease as link {}", link.name));
        }
        Ok(())
    }

    fn close(&self, lease: &Lease) -> Result<(), ClientError> {
        let Some(link) = &self.link else {
            return Ok(());
        };
        patiently(|| close_link(&link.scheduler, Timestamp(unix_nanos()), &link.name, lease))
    }

    /// Waits until the lease ends or a signal comes, and opens and closes the link. Fails if the provider has ended the
    /// lease.
    fn keep(&self, lease: &Lease, gate: &mut LinkGate) -> Result<(), Box<dyn Error>> {
        let (clock, inbox) = (Clock::start(), self.requester.inbox());
        let (mut looked_at, mut look_at) = (Instant::ZERO, Instant::ZERO);
        let mut refusals = 0;
        while unix_nanos() < lease.end.0 && !interrupt::is_requested() {
            pause(Duration::from_millis(100));
            if inbox.take_report() {
                // anyone can send reports, so they lead to few queries
                look_at = look_at.min(looked_at + LOOK_SOON);
            }
            if clock.now() < look_at {
                continue;
            }
            looked_at = clock.now();
            look_at = looked_at + LOOK;
            let states = match self.requester.query(&lease.connection_id) {
                Ok(summary) => summary.states,
                // a provider that is away keeps its promise
                Err(LeaseError::Network { .. } | LeaseError::Protocol { .. }) => continue,
                Err(LeaseError::Refused { .. }) if refusals < REFUSALS_MAX => {
                    refusals += 1;
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            refusals = 0;
            match states.lifecycle {
                LifecycleState::Created => {}
                // its clock may be ahead; the circuit is gone
                LifecycleState::PassedEndTime => return Ok(()),
                LifecycleState::Failed
                | LifecycleState::Terminating
                | LifecycleState::Terminated => {
                    let text = format!(
                        "the provider has ended the lease {}: its state is {}; ask its operator",
                        lease.connection_id,
                        states.lifecycle.name()
                    );
                    return Err(text.into());
                }
            }
            let is_active = states.data_plane.active;
            self.follow(lease, gate, (clock.now(), is_active))?;
            if !is_active || !gate.is_open() {
                look_at = looked_at + LOOK_SOON;
            }
        }
        Ok(())
    }

    /// Opens or closes the link as the state of the circuit requires.
    fn follow(
        &self,
        lease: &Lease,
        gate: &mut LinkGate,
        (now, is_active): (Instant, bool),
    ) -> Result<(), Box<dyn Error>> {
        if !is_active && unix_nanos() < lease.start.0 {
            return Ok(());
        }
        let id = &lease.connection_id;
        match gate.handle_answer(now, is_active) {
            Some(GateStep::Open) => {
                self.offer(lease)?;
                gate.note_opened();
            }
            Some(GateStep::Close) => {
                self.close(lease)?;
                gate.note_closed();
                say(format_args!(
                    "the circuit of {id} carries no packets; its link is closed until it does"
                ));
            }
            Some(GateStep::Report) => warn(format_args!(
                "the circuit of {id} carries no packets yet; ask the operator of the provider"
            )),
            None => {}
        }
        Ok(())
    }

    /// Closes the link, and then ends the lease. If the link cannot be closed, the lease stays, and the next start
    /// continues it: the link must not offer a circuit that is not there.
    fn end(&self, lease: &Lease, may_be_open: bool) -> Result<(), Box<dyn Error>> {
        if may_be_open {
            self.close(lease)?;
        }
        let id = &lease.connection_id;
        // what carries packets stops before its capacity is given up
        let released = self.requester.release(id);
        self.requester.terminate(id)?;
        say(format_args!("ended the lease {id}"));
        match released {
            // the time has passed, so nothing carries packets any more
            Err(LeaseError::Refused { .. }) => Ok(()),
            released => Ok(released?),
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

/// Returns the time without packets after which the link closes.
fn grace(settings: &Settings) -> Result<Duration, String> {
    let text = settings.grace.as_deref().unwrap_or(GRACE);
    duration::parse(text).map_err(|why| format!("grace: {why}"))
}

/// Returns a rate in Mb/s, the unit of NSI.
fn whole_mbps(rate: Rate) -> Result<u64, String> {
    let (mbps, rest) = (rate.as_bps() / 1_000_000, rate.as_bps() % 1_000_000);
    if mbps == 0 || rest > 0 {
        return Err(format!("rate: {rate}: NSI needs whole Mb/s, as in 1Gb/s"));
    }
    Ok(mbps)
}

/// Returns the request of the settings.
fn wanted(settings: &Settings) -> Result<Reserve, Box<dyn Error>> {
    let long = duration::parse(&settings.time).map_err(|why| format!("time: {why}"))?;
    let long = u64::try_from(long.as_nanos())?;
    let end = unix_nanos().checked_add(long);
    let end = end.ok_or("the lease would end after the year 2554: give a shorter time")?;
    let rate: Rate = settings
        .rate
        .parse()
        .map_err(|why| format!("rate: {why}"))?;
    let p2p = P2p {
        capacity_mbps: whole_mbps(rate)?,
        directionality: Directionality::Bidirectional,
        symmetric_path: None,
        source: settings.source.clone(),
        dest: settings.dest.clone(),
        ero: Vec::new(),
        unsupported: Vec::new(),
    };
    let schedule = Schedule {
        start: None,
        end: Some(Timestamp(end)),
    };
    let criteria = Criteria {
        schedule,
        p2p: Some(p2p),
        ..Criteria::default()
    };
    Ok(Reserve {
        global_id: Some(settings.id.clone()),
        criteria,
        ..Reserve::default()
    })
}

/// Passes messages to the inbox. Anyone may connect, so connections are few and short.
fn listen(listener: &TcpListener, inbox: &Arc<Inbox>) {
    let clock = Clock::start();
    let mut reported: Option<Instant> = None;
    let (done, ended) = sync_channel(CONNECTIONS);
    let mut running = 0;
    for tcp in listener.incoming() {
        let mut fault = tcp.as_ref().err().map(ToString::to_string);
        if fault.is_some() {
            pause(Duration::from_millis(100));
        }
        for end in ended.try_iter() {
            let end: Result<(), String> = end;
            running -= 1;
            fault = end.err().or(fault);
        }
        if let Ok(tcp) = tcp
            && running < CONNECTIONS
        {
            let (done, inbox) = (done.clone(), Arc::clone(inbox));
            running += 1;
            thread::spawn(move || {
                let answered = answer(&tcp, &inbox).map_err(|why| why.to_string());
                done.send(answered).ok();
            });
        }
        if let Some(why) = fault
            && reported.is_none_or(|last| clock.now() >= last + REPORT)
        {
            reported = Some(clock.now());
            warn(format_args!("cannot read a confirmation: {why}"));
        }
    }
}

/// Connection that must be read within a time.
struct Limited<'a> {
    tcp: &'a TcpStream,
    clock: Clock,
}

impl Read for Limited<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = (Instant::ZERO + READ_MAX).since(self.clock.now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.tcp.set_read_timeout(Some(left))?;
        self.tcp.read(buf)
    }
}

fn answer(mut tcp: &TcpStream, inbox: &Inbox) -> Result<(), Box<dyn Error>> {
    tcp.set_write_timeout(Some(READ_MAX))?;
    let clock = Clock::start();
    let mut reader = BufReader::new(Limited { tcp, clock }.take(MESSAGE_MAX));
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
/// Longest time for a confirmation to arrive on a connection.
const READ_MAX: Duration = Duration::from_secs(10);
/// Connections that are read at a time; others are closed.
const CONNECTIONS: usize = 16;
/// Time between two lines about connections that fail.
const REPORT: Duration = Duration::from_mins(1);
/// Queries that the provider may refuse in a row.
const REFUSALS_MAX: u32 = 3;
/// Time between two queries of the lease.
const LOOK: Duration = Duration::from_secs(10);
/// Time between two queries of a circuit that carries no packets, or whose state may have changed.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// Default time without packets after which the link closes.
const GRACE: &str = "30s";
/// Maximum length of a message with its head, in bytes.
const MESSAGE_MAX: u64 = 128 << 10;
