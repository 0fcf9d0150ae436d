//! Driver of one interface of a switch.
//!
//! An interface is a list of channels of one rate each. A circuit has as many channels as its rate needs, and each
//! channel in use is a cross-connect. An increase adds channels, and a decrease removes the last ones, so packets pass
//! in all others. A switch does not tell packets apart: the flow of a circuit is only recorded.
//!
//! The changes of one call first connect all their channels. Then the light of all has the same time to settle.
//!
//! A failed increase is taken back, and a failed decrease or removal is completed, at the next contact with the switch.
//! Cross-connects that are not in the record belong to other clients, and are never removed.

use std::collections::VecDeque;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::host::clock::Clock;
use tracing::warn;

use crate::circuit::CircuitId;
use crate::driver::{Capabilities, Change, CountedBytes, Driver, InstalledCircuit, Layer};
use crate::error::{Error, Misuse, Result};
use crate::tl1::config::SwitchConfig;
use crate::tl1::cross_connect::CrossConnect;
use crate::tl1::fault::SwitchFault;
use crate::tl1::record::{Assignment, Leftover, RecordFile};
use crate::tl1::switch::{self, NotConnected, Switch};

/// Driver of one interface of a switch that speaks TL1.
#[derive(Debug)]
pub struct Tl1 {
    interface: String,
    channels: Vec<CrossConnect>,
    capabilities: Capabilities,
    switch: Switch,
    record: RecordFile,
    /// Channels of the present call that are connected, and whose light is not checked yet.
    unchecked: Vec<CrossConnect>,
}

/// Change whose channels are connected.
struct Connected {
    id: CircuitId,
    /// Channels to add.
    added: Result<Vec<CrossConnect>>,
}

impl Tl1 {
    /// Creates the driver of an interface of `config`. The switch is first contacted by a later call.
    pub fn open(clock: Clock, config: &SwitchConfig, interface: &str) -> Result<Self> {
        let channels = config.interfaces.get(interface).cloned();
        let channels = channels.ok_or_else(|| {
            let known: Vec<&str> = config.interfaces.keys().map(String::as_str).collect();
            Misuse::UnknownInterface {
                interface: interface.to_owned(),
                known: known.join(", "),
            }
        })?;
        let capabilities = capabilities(config, channels.len());
        capabilities.check()?;
        let path = config.records.join(format!("{interface}.json"));
        Ok(Self {
            interface: interface.to_owned(),
            channels,
            capabilities,
            switch: Switch::new(clock, config.clone()),
            record: RecordFile::open(path)?,
            unchecked: Vec::new(),
        })
    }

    /// Creates the drivers of all interfaces of `config`.
    pub fn open_all(clock: Clock, config: &SwitchConfig) -> Result<Vec<(String, Self)>> {
        let interfaces = config.interfaces.keys();
        let open = |interface: &String| {
            Self::open(clock, config, interface).map(|driver| (interface.clone(), driver))
        };
        interfaces.map(open).collect()
    }

    /// Removes channels of a circuit, or connects more. Returns those that it gets once their light is checked.
    fn connect(&mut self, change: &Change<'_>) -> Result<Vec<CrossConnect>> {
        let id = change.circuit.id;
        self.check_rate(change)?;
        let wanted = self.channels_for(change.rate);
        self.prepare(change, wanted)?;
        if wanted == 0 && !self.record.content().has_leftovers(id) {
            // nothing changes at the switch
            return Ok(Vec::new());
        }
        self.finish_leftovers(id)?;
        let held = self.channels_of(id);
        for channel in &held {
            let made = self.switch.connect(channel, true);
            made.map_err(|failed| self.refused(channel, failed.why))?;
        }
        self.extend(id, wanted.saturating_sub(held.len()))
    }

    /// Refuses a rate that is no number of channels, instead of one that is higher.
    fn check_rate(&self, change: &Change<'_>) -> Result<()> {
        let Capabilities {
            rate_min: min,
            rate_max: max,
            granularity,
            ..
        } = self.capabilities;
        let is_whole = |rate: &Rate| rate.as_bps().is_multiple_of(granularity.as_bps());
        match change.rate.filter(|rate| !is_whole(rate)) {
            None => Ok(()),
            Some(rate) => Err(Misuse::Rate {
                id: change.circuit.id,
                interface: self.interface.clone(),
                rate,
                granularity,
                min,
                max,
            }
            .into()),
        }
    }

    /// Records the circuit and its flow, and its channels above `wanted` as leftovers.
    fn prepare(&mut self, change: &Change<'_>, wanted: usize) -> Result<()> {
        let (id, flow) = (change.circuit.id, change.circuit.flow);
        self.record.edit(|record| {
            let channels = Vec::new();
            let circuits = &mut record.circuits;
            let circuit = circuits.entry(id).or_insert(Assignment { flow, channels });
            circuit.flow = flow;
            let kept = wanted.min(circuit.channels.len());
            let mut cut = circuit.channels.split_off(kept);
            // the last channel is removed first
            cut.reverse();
            record.leave(id, &cut);
        })
    }

    /// Connects further channels for a circuit: all of them, or none.
    fn extend(&mut self, id: CircuitId, count: usize) -> Result<Vec<CrossConnect>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut left: VecDeque<CrossConnect> = self.reserve(id, count)?.into();
        let mut made = Vec::new();
        while let Some(channel) = left.pop_front() {
            let connected = self.switch.connect(&channel, false);
            let Err(NotConnected { why, may_be_made }) = connected else {
                made.push(channel);
                continue;
            };
            if !may_be_made {
                // so the next contact does not remove that of another client
                self.record.edit(|record| record.forget(&channel))?;
            }
            let is_blocked = !may_be_made && !self.blockers(&channel).is_empty();
            let next = if is_blocked && !why.is_contact() {
                // another channel may be free
                self.reserve(id, 1)
            } else {
                Err(self.refused(&channel, why))
            };
            match next {
                Ok(others) => left.extend(others),
                Err(why) => {
                    // nothing was sent for the rest
                    self.record
                        .edit(|record| left.iter().for_each(|unsent| record.forget(unsent)))?;
                    // a failure is repeated at the next contact
                    let _ = self.remove_leftovers();
                    return Err(why);
                }
            }
        }
        self.unchecked.extend(made.iter().cloned());
        Ok(made)
    }

    /// Checks the light of changes, and records their channels.
    fn check_all(&mut self, changes: Vec<Connected>) -> Vec<Result<()>> {
        // a reading may be from before the light has settled
        let config = self.switch.config();
        let light = config.reconfiguration.saturating_add(config.settling);
        let settled = self.switch.clock().now() + light.min(SETTLE_MAX);
        let check = |Connected { id, added }| {
            let added: Vec<CrossConnect> = added?;
            self.unchecked.retain(|one| !added.contains(one));
            for channel in &added {
                if let Err(why) = self.check_power(channel, settled) {
                    // a failure is repeated at the next contact
                    let _ = self.remove_leftovers();
                    return Err(self.refused(channel, why));
                }
            }
            self.record.edit(|record| {
                for channel in &added {
                    record.forget(channel);
                }
                if let Some(circuit) = record.circuits.get_mut(&id) {
                    circuit.channels.extend(added);
                }
            })
        };
        changes.into_iter().map(check).collect()
    }

    /// Chooses free channels, and records them as leftovers until they are in use.
    fn reserve(&mut self, id: CircuitId, count: usize) -> Result<Vec<CrossConnect>> {
        let record = self.record.content();
        let unused = self.channels.iter().filter(|channel| !record.has(channel));
        let (blocked, free): (Vec<_>, Vec<_>) =
            unused.partition(|channel| !self.blockers(channel).is_empty());
        if free.len() >= count {
            let chosen: Vec<CrossConnect> = free.into_iter().take(count).cloned().collect();
            self.record.edit(|record| record.leave(id, &chosen))?;
            return Ok(chosen);
        }
        let mut blockers: Vec<String> = blocked
            .into_iter()
            .flat_map(|channel| self.blockers(channel))
            .map(|other| other.to_string())
            .collect();
        blockers.sort();
        blockers.dedup();
        let interface = self.interface.clone();
        if blockers.is_empty() {
            return Err(Misuse::Channels {
                interface,
                free: free.len(),
                needed: count,
            }
            .into());
        }
        Err(Error::Occupied {
            interface,
            cross_connects: blockers.join(", "),
        })
    }

    /// Checks the power of light at a channel, which may be low until `settled`.
    fn check_power(&mut self, channel: &CrossConnect, settled: Instant) -> switch::Result<()> {
        let Some(min_dbm) = self.switch.config().power_min_dbm else {
            return Ok(());
        };
        let clock = self.switch.clock();
        loop {
            let is_last = clock.now() >= settled;
            let power_dbm = self.switch.power_dbm(channel)?;
            if power_dbm >= min_dbm {
                return Ok(());
            }
            if is_last {
                let port = channel.to().clone();
                return Err(SwitchFault::LowPower {
                    port,
                    power_dbm,
                    min_dbm,
                });
            }
            let again = settled.min(clock.now() + READING);
            if !self.switch.stop_limit().pause(clock, again) {
                return Err(SwitchFault::Stopping("reading of the power".to_owned()));
            }
        }
    }

    /// Contacts the switch, and removes leftovers. Fails if one of `id` remains.
    fn finish_leftovers(&mut self, id: CircuitId) -> Result<()> {
        self.switch.contact().map_err(|why| self.failed(why))?;
        let denied = self.remove_leftovers()?;
        let remains = self.record.content().has_leftovers(id);
        // a leftover of another circuit only keeps its own ports in use
        denied
            .filter(|_| remains)
            .map_or(Ok(()), |why| Err(self.failed(why)))
    }

    /// Removes leftovers from the switch, then from the record. Returns the reason for which a leftover remains.
    fn remove_leftovers(&mut self) -> Result<Option<SwitchFault>> {
        let leftovers = self.record.content().leftovers.iter();
        let leftovers = leftovers.filter(|one| !self.unchecked.contains(&one.cross_connect));
        let leftovers: Vec<Leftover> = leftovers.cloned().collect();
        let mut gone = Vec::new();
        let (mut denied, mut broken) = (None, None);
        for Leftover { cross_connect, .. } in leftovers {
            match self.switch.disconnect(&cross_connect) {
                Ok(()) => gone.push(cross_connect),
                Err(why) if why.is_contact() => {
                    broken = Some(why);
                    break;
                }
                Err(why) => denied = Some(why),
            }
        }
        self.record
            .edit(|record| gone.iter().for_each(|old| record.forget(old)))?;
        broken.map_or(Ok(denied), |why| Err(self.failed(why)))
    }

    /// Returns the cross-connects of other clients that use a port of a channel.
    fn blockers(&self, channel: &CrossConnect) -> Vec<CrossConnect> {
        let record = self.record.content();
        let is_other = |found: &&CrossConnect| {
            let is_ours = record.has(found) && *found != channel;
            found.conflicts_with(channel) && !is_ours
        };
        self.switch
            .found()
            .iter()
            .filter(is_other)
            .cloned()
            .collect()
    }

    /// Logs channels that are in use although there was no record at the start. The record may be lost: a driver without
    /// it takes its own cross-connects for those of another client.
    fn warn_of_lost_record(&mut self) {
        let Some(path) = self.record.take_missing() else {
            return;
        };
        let is_used =
            |found: &&CrossConnect| self.channels.iter().any(|one| found.conflicts_with(one));
        let used = self.switch.found().iter().filter(is_used);
        let used: Vec<String> = used.map(ToString::to_string).collect();
        if !used.is_empty() {
            warn!(
                interface = self.interface,
                cross_connects = used.join(", "),
                "the switch uses channels of an interface without a record; if {} was lost, put it back from a backup and \
                 start again, or remove these cross-connects by hand",
                path.display()
            );
        }
    }

    /// Returns the error of a channel that could not be connected.
    fn refused(&self, channel: &CrossConnect, why: SwitchFault) -> Error {
        let blockers = self.blockers(channel);
        let others = blockers.iter().filter(|other| *other != channel);
        let others: Vec<String> = others.map(ToString::to_string).collect();
        let is_refused = matches!(why, SwitchFault::Denied { .. });
        if is_refused && !others.is_empty() {
            return Error::Occupied {
                interface: self.interface.clone(),
                cross_connects: others.join(", "),
            };
        }
        self.failed(why)
    }

    fn failed(&self, fault: SwitchFault) -> Error {
        Error::Switch {
            address: self.switch.config().address(),
            fault,
        }
    }

    /// Returns the number of channels that carry a rate.
    fn channels_for(&self, rate: Option<Rate>) -> usize {
        let channel = self.capabilities.granularity.as_bps();
        let count = rate.map_or(0, |rate| rate.as_bps() / channel);
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    fn channels_of(&self, id: CircuitId) -> Vec<CrossConnect> {
        let circuit = self.record.content().circuits.get(&id);
        circuit.map_or_else(Vec::new, |circuit| circuit.channels.clone())
    }

    /// Returns a circuit with the channels that the switch has.
    fn installed(&self, id: CircuitId, circuit: &Assignment) -> InstalledCircuit {
        let channels = circuit.channels.iter();
        let lit = channels.filter(|channel| self.switch.has(channel)).count() as u64;
        let channel = self.capabilities.granularity.as_bps();
        InstalledCircuit {
            id,
            flow: Some(circuit.flow),
            rate: Rate::from_bps(channel.saturating_mul(lit)),
        }
    }
}

impl Driver for Tl1 {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        self.switch.begin();
        let (mut results, mut connected) = (Vec::new(), Vec::<Connected>::new());
        for change in changes {
            let id = change.circuit.id;
            if connected.iter().any(|one| one.id == id) {
                // a change of a circuit follows its earlier ones
                results.extend(self.check_all(std::mem::take(&mut connected)));
            }
            let added = self.connect(change);
            connected.push(Connected { id, added });
        }
        results.extend(self.check_all(connected));
        results
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        self.switch.begin();
        self.record.edit(|record| {
            if let Some(circuit) = record.circuits.remove(&id) {
                record.leave(id, &circuit.channels);
            }
        })?;
        if !self.record.content().has_leftovers(id) {
            return Ok(());
        }
        self.finish_leftovers(id)
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        self.switch.begin();
        self.switch.read().map_err(|why| self.failed(why))?;
        self.warn_of_lost_record();
        self.remove_leftovers()?;
        let circuits = self.record.content().circuits.iter();
        Ok(circuits
            .map(|(id, circuit)| self.installed(*id, circuit))
            .collect())
    }
}

fn capabilities(config: &SwitchConfig, channels: usize) -> Capabilities {
    let channel = config.channel.rate;
    let sum = channel.as_bps().saturating_mul(channels as u64);
    // commands follow each other
    let commands = u32::try_from(channels).unwrap_or(u32::MAX);
    let commands = commands.saturating_mul(COMMANDS_EACH);
    let commands = config.command_time.saturating_mul(commands);
    Capabilities {
        rate_min: channel,
        rate_max: Rate::from_bps(sum).unwrap_or(channel),
        granularity: channel,
        reconfiguration: config.reconfiguration.saturating_add(commands),
        settling: config.settling,
        entries_max: CIRCUITS_MAX,
        counted: CountedBytes {
            layer: Layer::Ip,
            overhead_bytes: config.channel.overhead_bytes,
        },
        timer_max: None,
    }
}

/// Number of commands that connect a channel: the switch is asked for it, and makes it. A removal needs one.
const COMMANDS_EACH: u32 = 2;
/// Maximum number of circuits; most of them wait for their start and have no channel.
const CIRCUITS_MAX: usize = 4096;
/// Longest time in which the power of light is read again, for any times of the switch.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Time between two readings.
const READING: Duration = Duration::from_millis(250);
