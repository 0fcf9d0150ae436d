//! Single RBUDP or RBUDP+ transfer at a rate, with a load beside the receiver or a disk as its
//! target.
//!
//! `try_once` runs one `Trial` and returns its `Outcome`: seconds, and retransmitted packets in
//! percent. Sender and receiver have a core each. The load competes for the core of the receiver,
//! which is how a slow host is made. The hosts are joined by a veth pair without an emulated link,
//! so only the receiver loses packets. A received file is removed afterwards.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_fs::disk::{OutputFile, Root};
use lighthaul_io::drive::{Lane, Next, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::affinity::pin_to_core;
use lighthaul_io::host::competition::Competition;
use lighthaul_io::store::blocks::{Blocks, Sink};
use lighthaul_proto::rbudp::wire::HEAD_LEN;
use lighthaul_proto::rbudp::{
    Config, FeedbackConfig, Framing, Receiver, ReceiverEvent, Sender, SenderEvent,
};

use super::host_pair::HostPair;
use super::machines::{MeteredOwner, OVERHEAD_LEN, PACKET_LEN, STREAM, lanes, object};
use super::meter::Meter;
use super::plan::{Target, Trial, Trials};

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
    let link = LinkSettings {
        kind: Some("veth".into()),
        ..LinkSettings::default()
    };
    let hosts = HostPair::new(link)?;
    let config = config(trials.bytes, trial, rate);
    let [near, mut far] = lanes(&hosts, HEAD_LEN)?;
    if let (Some(bytes), Some(udp)) = (trial.socket_bytes, &far.udp) {
        udp.set_buffers(bytes);
    }
    far.competition = trial.feedback.then(Competition::new);
    let begun = hosts.clock.now();
    let mut sender = Sender::new(begun, config, SEED);
    let _load = CoreLoad::start(trial.tasks, RECEIVER_CORE)?;
    let meter = Meter::default();
    let ended = thread::scope(|scope| {
        let received = scope.spawn(|| receive(config, trial, far, &meter));
        // On its own thread, since a thread stays pinned to its core.
        let sent = scope.spawn(|| send(&mut sender, near, &meter));
        let sent = sent.join();
        let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let ended = hosts.clock.now();
        meter.end();
        let received = received.join();
        received.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        sent.map(|()| ended)
    })?;
    Ok(Outcome {
        seconds: ended.since(begun).as_secs_f64(),
        lost: 100.0 * sender.resent() as f64 / config.framing.packets() as f64,
    })
}

fn config(bytes: u64, trial: &Trial, rate: Rate) -> Config {
    Config {
        framing: Framing {
            object_len: bytes,
            packet_len: PACKET_LEN,
            overhead_len: OVERHEAD_LEN,
        },
        rate: rate.scaled(PACKET_LEN + OVERHEAD_LEN + HEAD_LEN as u32, PACKET_LEN),
        burst: None,
        stream: STREAM,
        settle: SETTLE,
        repeat: Duration::ZERO,
        feedback: trial.feedback.then_some(FeedbackConfig {
            rtt: RTT,
            pause_max: PAUSE_MAX,
        }),
    }
}

fn send(sender: &mut Sender, mut lane: Lane, meter: &Meter) -> Result<()> {
    pin_to_core(SENDER_CORE).map_err(Error::world("pin the sender to a core"))?;
    let mut owner = MeteredOwner {
        meter,
        look: |_: &Sender, _: &Meter| {},
        judge: |event| match event {
            SenderEvent::Round { .. }
            | SenderEvent::Asked { .. }
            | SenderEvent::Paused(_)
            | SenderEvent::Barren { .. } => Ok(Next::Continue),
            SenderEvent::Complete => Ok(Next::Finish),
            SenderEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        },
    };
    run(sender, &mut lane, &mut object(), &mut owner).map_err(Error::Flow)
}

fn receive(config: Config, trial: &Trial, mut lane: Lane, meter: &Meter) -> Result<()> {
    pin_to_core(RECEIVER_CORE).map_err(Error::world("pin the receiver to a core"))?;
    let mut receiver = Receiver::new(lane.clock.now(), config, SEED);
    let mut owner = MeteredOwner {
        meter,
        look: |_: &Receiver, _: &Meter| {},
        judge: |event| match event {
            ReceiverEvent::Tallied { .. } => Ok(Next::Continue),
            ReceiverEvent::Complete => Ok(Next::Finish),
            ReceiverEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        },
    };
    match &trial.target {
        Target::Memory => run(&mut receiver, &mut lane, &mut object(), &mut owner)?,
        Target::Folder(folder) => {
            let file = Scratch::create(folder).map_err(Error::world("create the received file"))?;
            let mut blocks = Blocks::start(file, PACKET_LEN, BLOCKS_BYTES)?;
            blocks.begin((), config.framing.object_len)?;
            run(&mut receiver, &mut lane, &mut blocks, &mut owner)?;
            blocks.end()?;
            blocks.finish().1?;
        }
    }
    Ok(())
}

/// File that is removed when this value is dropped.
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
const SENDER_CORE: usize = 0;
const RECEIVER_CORE: usize = 1;
const BLOCKS_BYTES: usize = 64 << 20;
/// Round-trip time and settling time of a copy over such a short path.
const RTT: Duration = Duration::from_micros(100);
const SETTLE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_secs(2);
