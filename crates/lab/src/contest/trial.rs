//! Single transfer at a fixed rate by RBUDP, RBUDP+ or SABUL, with competing load at the receiver or a disk as target.
//!
//! `try_once` runs one `Trial` and returns its `Outcome`: seconds, and retransmitted packets in
//! percent. Sender and receiver have a core each. The load competes for the core of the receiver,
//! which is how a slow host is made. The hosts are joined by a veth pair without an emulated link,
//! so only the receiver loses packets. A received file is removed afterwards.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate};
use lighthaul_fs::disk::{OutputFile, Root};
use lighthaul_io::drive::{Lane, Next, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::affinity::pin_to_core;
use lighthaul_io::host::competition::Competition;
use lighthaul_io::store::blocks::{Blocks, Sink};
use lighthaul_proto::{rbudp, sabul};

use super::host_pair::HostPair;
use super::machines::{MeteredOwner, OVERHEAD_LEN, STREAM, lanes, object};
use super::meter::Meter;
use super::plan::{Target, Trial, TrialProtocol, Trials};

use crate::core_load::CoreLoad;
use crate::error::{Error, Result};
use crate::settings::LinkSettings;

/// Result of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) seconds: f64,
    /// Datagrams retransmitted, in percent of the packets.
    pub(crate) lost: f64,
}

/// Runs `trial` once, with the object sent at `rate`.
pub(crate) fn try_once(trials: &Trials, trial: &Trial, rate: Rate) -> Result<Outcome> {
    match trial.protocol {
        TrialProtocol::Rbudp => blast(trials, trial, (rate, None)),
        TrialProtocol::RbudpPlus => {
            let feedback = rbudp::FeedbackConfig {
                rtt: RTT,
                pause_max: PAUSE_MAX,
            };
            blast(trials, trial, (rate, Some(feedback)))
        }
        TrialProtocol::Sabul => send_at_fixed_rate(trials, trial, rate),
    }
}

/// Runs a trial of RBUDP, or of RBUDP+ with `feedback`.
fn blast(
    trials: &Trials,
    trial: &Trial,
    (rate, feedback): (Rate, Option<rbudp::FeedbackConfig>),
) -> Result<Outcome> {
    let size = PacketSize::new(trial, rbudp::wire::HEAD_LEN);
    let config = rbudp::Config {
        framing: rbudp::Framing {
            object_len: trials.bytes,
            packet_len: size.packet_len,
            overhead_len: OVERHEAD_LEN,
        },
        rate: size.wire_rate(rate),
        burst: None,
        stream: STREAM,
        settle: SETTLE,
        repeat: Duration::ZERO,
        feedback,
    };
    let machines = Machines {
        sender: &|now| rbudp::Sender::new(now, config, SEED),
        receiver: &|now| rbudp::Receiver::new(now, config, SEED),
        judge_sender: |event| match event {
            rbudp::SenderEvent::Round { .. }
            | rbudp::SenderEvent::Asked { .. }
            | rbudp::SenderEvent::Paused(_)
            | rbudp::SenderEvent::Barren { .. } => Ok(Next::Continue),
            rbudp::SenderEvent::Complete => Ok(Next::Finish),
            rbudp::SenderEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        },
        judge_receiver: |event| match event {
            rbudp::ReceiverEvent::Tallied { .. } => Ok(Next::Continue),
            rbudp::ReceiverEvent::Complete => Ok(Next::Finish),
            rbudp::ReceiverEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        },
        resent: rbudp::Sender::resent,
        competition: feedback.is_some(),
    };
    machines.run(trial, size, trials.bytes)
}

/// Runs a trial of SABUL whose initial rate does not change.
fn send_at_fixed_rate(trials: &Trials, trial: &Trial, rate: Rate) -> Result<Outcome> {
    let size = PacketSize::new(trial, sabul::wire::HEAD_LEN);
    let rate = size.wire_rate(rate);
    // more than the path holds, as the receiver may be late
    let window = rate.bytes_in(WINDOW_TIME) / u64::from(size.packet_len);
    let config = sabul::Config {
        framing: sabul::Framing {
            object_len: trials.bytes,
            packet_len: size.packet_len,
            overhead_len: OVERHEAD_LEN,
        },
        mode: sabul::Mode::Fixed,
        memory: sabul::Memory::new(rate, RTT),
        rate_max: rate,
        burst: None,
        stream: STREAM,
        window_max: window.clamp(WINDOW_MIN, u64::from(u32::MAX)) as u32,
        ranges_max: 1 << 14,
    };
    let machines = Machines {
        sender: &|now| sabul::Sender::new(now, config, SEED),
        receiver: &|now| sabul::Receiver::new(now, config, SEED),
        judge_sender: |event| match event {
            sabul::SenderEvent::Passed | sabul::SenderEvent::Barren => Ok(Next::Continue),
            sabul::SenderEvent::Complete => Ok(Next::Finish),
            sabul::SenderEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        },
        judge_receiver: |event| match event {
            sabul::ReceiverEvent::Complete => Ok(Next::Finish),
            sabul::ReceiverEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        },
        resent: sabul::Sender::resent,
        competition: false,
    };
    machines.run(trial, size, trials.bytes)
}

/// Lengths of the packets of a trial, in bytes.
#[derive(Clone, Copy, Debug)]
struct PacketSize {
    packet_len: u32,
    head_len: usize,
}

impl PacketSize {
    /// Returns the longest packets of whole 32 bytes that fit in the trial's IP packets.
    fn new(trial: &Trial, head_len: usize) -> Self {
        let room = trial.mtu - OVERHEAD_LEN - head_len as u32;
        Self {
            packet_len: room / 32 * 32,
            head_len,
        }
    }

    /// Returns the rate on the wire for a rate of the object.
    fn wire_rate(self, rate: Rate) -> Rate {
        let wire_len = self.packet_len + OVERHEAD_LEN + self.head_len as u32;
        rate.scaled(wire_len, self.packet_len)
    }
}

type Judge<E> = fn(<E as Endpoint>::Event) -> std::result::Result<Next, World>;

/// Machines of a transfer, and the functions that judge their events.
struct Machines<'a, S: Endpoint, R: Endpoint> {
    sender: &'a (dyn Fn(Instant) -> S + Sync),
    receiver: &'a (dyn Fn(Instant) -> R + Sync),
    judge_sender: Judge<S>,
    judge_receiver: Judge<R>,
    /// Returns the packets that were sent again.
    resent: fn(&S) -> u64,
    /// True if the receiver predicts competition for its processor core.
    competition: bool,
}

impl<S: Endpoint + Send, R: Endpoint> Machines<'_, S, R>
where
    S::Event: 'static,
    R::Event: 'static,
{
    fn run(&self, trial: &Trial, size: PacketSize, bytes: u64) -> Result<Outcome> {
        let link = LinkSettings {
            kind: Some("veth".into()),
            mtu: Some(trial.mtu),
            ..LinkSettings::default()
        };
        let hosts = HostPair::new(link)?;
        let [near, mut far] = lanes(&hosts, size.head_len)?;
        if let (Some(bytes), Some(udp)) = (trial.socket_bytes, &far.udp) {
            udp.set_buffers(bytes);
        }
        far.competition = self.competition.then(Competition::new);
        let begun = hosts.clock.now();
        let mut sender = (self.sender)(begun);
        let _load = CoreLoad::start(trial.tasks, RECEIVER_CORE)?;
        let meter = Meter::default();
        let ended = thread::scope(|scope| {
            let received = scope.spawn(|| self.receive(trial, (size, bytes), far, &meter));
            // On its own thread, since a thread stays pinned to its core.
            let sent = scope.spawn(|| send(&mut sender, self.judge_sender, near, &meter));
            let sent = sent.join();
            let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let ended = hosts.clock.now();
            meter.end();
            let received = received.join();
            received.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            sent.map(|()| ended)
        })?;
        let packets = bytes.div_ceil(size.packet_len.into());
        Ok(Outcome {
            seconds: ended.since(begun).as_secs_f64(),
            lost: 100.0 * (self.resent)(&sender) as f64 / packets as f64,
        })
    }

    fn receive(
        &self,
        trial: &Trial,
        (size, bytes): (PacketSize, u64),
        mut lane: Lane,
        meter: &Meter,
    ) -> Result<()> {
        pin_to_core(RECEIVER_CORE).map_err(Error::world("pin the receiver to a core"))?;
        let mut receiver = (self.receiver)(lane.clock.now());
        let mut owner = MeteredOwner {
            meter,
            look: |_: &R, _: &Meter| {},
            judge: self.judge_receiver,
        };
        match &trial.target {
            Target::Memory => run(&mut receiver, &mut lane, &mut object(), &mut owner)?,
            Target::Folder(folder) => {
                let file =
                    Scratch::create(folder).map_err(Error::world("create the received file"))?;
                let mut blocks = Blocks::start(file, size.packet_len, BLOCKS_BYTES)?;
                blocks.begin((), bytes)?;
                run(&mut receiver, &mut lane, &mut blocks, &mut owner)?;
                blocks.end()?;
                blocks.finish().1?;
            }
        }
        Ok(())
    }
}

fn send<S: Endpoint>(sender: &mut S, judge: Judge<S>, mut lane: Lane, meter: &Meter) -> Result<()> {
    pin_to_core(SENDER_CORE).map_err(Error::world("pin the sender to a core"))?;
    let mut owner = MeteredOwner {
        meter,
        look: |_: &S, _: &Meter| {},
        judge,
    };
    run(sender, &mut lane, &mut object(), &mut owner).map_err(Error::Flow)
}

/// File that is removed on drop.
struct Scratch {
    file: OutputFile,
    path: PathBuf,
}

impl Scratch {
    fn create(folder: &std::path::Path) -> std::io::Result<Self> {
        let name = PathBuf::from(format!(".lighthaul-figures-{}", std::process::id()));
        let file = Root::open(folder)?.create(&name)?;
        let path = folder.join(name);
        Ok(Self { file, path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

impl Sink for Scratch {
    type Object = ();

    fn begin(&mut self, (): ()) -> std::result::Result<(), World> {
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::result::Result<(), World> {
        let written = self.file.write_at(bytes, offset);
        written.map_err(|error| World::world("cannot write the object", error))
    }

    fn end(&mut self) -> std::result::Result<(), World> {
        let synced = self.file.sync();
        synced.map_err(|error| World::world("cannot sync the object", error))
    }
}

const SEED: u64 = 1;
/// Time at the rate that SABUL's flow window covers.
const WINDOW_TIME: Duration = Duration::from_millis(100);
/// Minimum number of packets in the flow window.
const WINDOW_MIN: u64 = 1 << 10;
const SENDER_CORE: usize = 0;
const RECEIVER_CORE: usize = 1;
const BLOCKS_BYTES: usize = 64 << 20;
/// Round-trip time of a copy on the short path of the lab.
const RTT: Duration = Duration::from_micros(100);
/// Settling time of a copy on the short path of the lab.
const SETTLE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_secs(2);
