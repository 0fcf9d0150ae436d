//! The driver of one interface: HTB classes that circuits have for themselves, and filters that lead to them.
//!
//! ```text
//! interface -- 4c48: htb -- 4c48:1 the capacity -+- 4c48:ffff the rest: borrows what nobody uses
//!                                                +- 4c48:2    a circuit, its rate and no more
//!                                                +- 4c48:3    a circuit that takes no packets now
//! ```
//!
//! The handle `4c48:` is our mark, and so is what circuit in a filter (`program`). A class is made at
//! commit; at a boundary only its rate changes, in place, and a filter where a circuit opens or closes. What waits
//! in a class that closes leaves with the rest. The kernel has no timers for this: what nobody changes stays as it
//! is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::Rate;
use rustix::io;

use crate::circuit::CircuitId;
use crate::driver::{Capabilities, Change, Driver, InstalledCircuit};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::linux::filter::Label;
use crate::linux::htb::{self, Class, TCA_KIND, TCA_OPTIONS};
use crate::linux::message::{Message, Subject};
use crate::linux::netlink::Netlink;
use crate::linux::tc_object::{RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER, TCA_BPF_OPS, TcObject};

/// Keeps circuits at an interface of the namespace that it was opened in.
#[derive(Debug)]
pub struct Shaper {
    netlink: Netlink,
    interface: String,
    index: u32,
    /// What the interface carries; all circuits and the rest share it.
    capacity: Rate,
    /// Whether our discipline is there.
    is_ours: bool,
    circuits: BTreeMap<CircuitId, KernelCircuit>,
}

/// A circuit as it was told to the kernel, or found there.
#[derive(Clone, Copy, Debug)]
struct KernelCircuit {
    /// The lower half of its class's number, and its filter's.
    minor: u16,
    /// Nothing if it is not as we made it.
    flow: Option<Flow>,
    rate: Option<Rate>,
    priority: u16,
}

impl Shaper {
    /// Takes the interface for circuits, unless somebody else shapes it already. Nothing changes before the first
    /// circuit, and after the last the interface is as it was.
    pub fn open(interface: &str, capacity: Rate) -> Result<Self> {
        if !(RATE_MIN..=RATE_MAX).contains(&capacity) {
            return Err(Error::Misuse(format!(
                "{interface} cannot carry {capacity}: say what it carries, from {RATE_MIN} to {RATE_MAX}"
            )));
        }
        let mut shaper = Self {
            netlink: Netlink::open().map_err(Error::kernel("ask the kernel about interfaces"))?,
            interface: interface.to_owned(),
            index: 0,
            capacity,
            is_ours: false,
            circuits: BTreeMap::new(),
        };
        shaper.refresh()?;
        Ok(shaper)
    }

    /// Learns what circuit at the interface.
    fn refresh(&mut self) -> Result<()> {
        let what = format!("look at {}", self.interface);
        let index = self.netlink.index_of(&self.interface);
        self.index = index.map_err(Error::kernel(what.clone()))?;
        self.is_ours = self.check_root()?;
        self.circuits.clear();
        if !self.is_ours {
            return Ok(());
        }
        let rates = self.classes().map_err(Error::kernel(what.clone()))?;
        let filters = self.filters().map_err(Error::kernel(what))?;
        for filter in filters {
            let TcObject::Filter {
                minor,
                priority,
                circuit: id,
                flow,
                is_open,
            } = filter
            else {
                continue;
            };
            let rate = rates.get(&minor).copied();
            let circuit = KernelCircuit {
                minor,
                flow: flow.filter(|_| rate.is_some()),
                rate: rate.filter(|_| is_open),
                priority,
            };
            self.circuits.insert(id, circuit);
        }
        Ok(())
    }

    /// Whether the discipline at the root is ours; refuses another that somebody put there.
    fn check_root(&mut self) -> Result<bool> {
        let index = self.index;
        let all = Message::new(RTM_GETQDISC, NLM_F_DUMP, self.subject(0, 0));
        let roots = self
            .netlink
            .dump(&all, |reply| match TcObject::of(&reply)? {
                TcObject::Discipline {
                    interface,
                    handle,
                    parent: ROOT,
                    kind,
                    rest,
                } if interface == index => Some((handle, kind, rest)),
                TcObject::Discipline { .. } | TcObject::Class { .. } | TcObject::Filter { .. } => {
                    None
                }
            });
        let what = format!("look at {}", self.interface);
        let roots = roots.map_err(Error::kernel(what))?;
        // what the kernel puts there by itself has no handle
        match roots.into_iter().find(|(handle, ..)| *handle != 0) {
            None => Ok(false),
            Some((MAJOR, _, Some(REST))) => Ok(true),
            Some((handle, kind, _)) => Err(Error::Foreign {
                interface: self.interface.clone(),
                qdisc: format!("{kind} {:x}:", handle >> 16),
            }),
        }
    }

    /// The rates of our classes.
    fn classes(&mut self) -> io::Result<BTreeMap<u16, Rate>> {
        let all = Message::new(RTM_GETTCLASS, NLM_F_DUMP, self.subject(0, 0));
        let classes = self
            .netlink
            .dump(&all, |reply| match TcObject::of(&reply)? {
                TcObject::Class { minor, rate } => Some((minor, rate)),
                TcObject::Discipline { .. } | TcObject::Filter { .. } => None,
            });
        Ok(classes?.into_iter().collect())
    }

    /// The filters that carry our mark.
    fn filters(&mut self) -> io::Result<Vec<TcObject>> {
        let all = Message::new(RTM_GETTFILTER, NLM_F_DUMP, self.subject(0, MAJOR));
        self.netlink.dump(&all, |reply| TcObject::of(&reply))
    }

    /// Has the kernel do all changes; answers with the first refusal of each.
    fn send(&mut self, changes: &[Change<'_>]) -> Vec<io::Result<()>> {
        if let Err(why) = self.install_root() {
            return vec![Err(why); changes.len()];
        }
        let mut minors = self.free_minors();
        let mut messages = Vec::new();
        let mut owners = Vec::new();
        let mut after = Vec::new();
        for (nth, change) in changes.iter().enumerate() {
            let (circuit, some) = self.plan(change, &mut minors);
            owners.extend(some.iter().map(|_| nth));
            messages.extend(some);
            after.push(circuit);
        }
        let mut answers: Vec<io::Result<()>> = vec![Ok(()); changes.len()];
        for (nth, answer) in owners.into_iter().zip(self.netlink.ask(&messages)) {
            if answers[nth].is_ok() {
                answers[nth] = answer;
            }
        }
        for ((change, circuit), answer) in changes.iter().zip(after).zip(&answers) {
            if answer.is_ok() {
                self.circuits.insert(change.circuit.id, circuit);
            }
        }
        answers
    }

    /// How a circuit circuit after a change, and what the kernel is told for that.
    fn plan(
        &self,
        change: &Change<'_>,
        minors: &mut impl Iterator<Item = u16>,
    ) -> (KernelCircuit, Vec<Message>) {
        let flow = change.circuit.flow;
        let before = self.circuits.get(&change.circuit.id);
        let minor = before.map(|before| before.minor);
        let circuit = KernelCircuit {
            // there are more numbers than entries
            minor: minor.or_else(|| minors.next()).unwrap_or(u16::MAX - 1),
            flow: Some(flow),
            rate: change.rate,
            priority: 1 + flow.breadth(),
        };
        let label = Label {
            id: change.circuit.id,
            flow,
            is_open: change.rate.is_some(),
        };
        let whole = before.filter(|before| before.flow == Some(flow));
        let mut messages = Vec::new();
        if let Some(before) = before.filter(|_| whole.is_none()) {
            messages.push(self.filter(RTM_DELTFILTER, 0, before));
        }
        let class = self.class(circuit.minor, change.rate);
        let filter = || {
            let message = self.filter(RTM_NEWTFILTER, NLM_F_CREATE, &circuit);
            write_filter(message, &label, MAJOR | u32::from(circuit.minor))
        };
        match whole {
            Some(before) if before.rate.is_some() == change.rate.is_some() => messages.push(class),
            // nothing goes in any more before what is in it loses its rate
            Some(_) if change.rate.is_none() => messages.extend([filter(), class]),
            _ => messages.extend([class, filter()]),
        }
        (circuit, messages)
    }

    /// Puts our discipline at the root, with the classes that are always there.
    fn install_root(&mut self) -> io::Result<()> {
        if self.is_ours {
            return Ok(());
        }
        let root = Message::new(
            RTM_NEWQDISC,
            NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
            self.subject(MAJOR, ROOT),
        );
        let whole = Class::fixed(self.capacity);
        let rest = Class {
            rate: RATE_MIN,
            ceil: self.capacity,
            priority: 1,
        };
        let class = |minor, parent, class: Class| {
            let subject = self.subject(MAJOR | minor, MAJOR | parent);
            class.write(Message::new(
                RTM_NEWTCLASS,
                NLM_F_ACK | NLM_F_CREATE,
                subject,
            ))
        };
        let messages = [
            htb::write_discipline(root, REST),
            class(WHOLE, 0, whole),
            class(REST, WHOLE, rest),
        ];
        self.netlink
            .ask(&messages)
            .into_iter()
            .collect::<io::Result<()>>()?;
        self.is_ours = true;
        Ok(())
    }

    /// Makes or changes the class of a circuit. One that takes no packets keeps the smallest rate, and what still waits
    /// in it borrows from what nobody uses.
    fn class(&self, minor: u16, rate: Option<Rate>) -> Message {
        let subject = self.subject(MAJOR | u32::from(minor), MAJOR | WHOLE);
        let message = Message::new(RTM_NEWTCLASS, NLM_F_ACK | NLM_F_CREATE, subject);
        let closed = Class {
            rate: RATE_MIN,
            ceil: self.capacity,
            priority: 0,
        };
        rate.map_or(closed, Class::fixed).write(message)
    }

    /// A message about a circuit's filter.
    fn filter(&self, kind: u16, flags: u16, circuit: &KernelCircuit) -> Message {
        let subject = Subject {
            info: u32::from(circuit.priority) << 16 | ANY_PACKET,
            ..self.subject(circuit.minor.into(), MAJOR)
        };
        Message::new(kind, NLM_F_ACK | flags, subject).with_text(TCA_KIND, "bpf")
    }

    const fn subject(&self, handle: u32, parent: u32) -> Subject {
        Subject {
            index: self.index,
            handle,
            parent,
            info: 0,
        }
    }

    /// Numbers that no circuit has; a class that was left without a filter when somebody was killed is used again.
    fn free_minors(&self) -> impl Iterator<Item = u16> + use<> {
        let taken: BTreeSet<u16> = self
            .circuits
            .values()
            .map(|circuit| circuit.minor)
            .collect();
        (MINOR_FIRST..MINOR_LAST).filter(move |minor| !taken.contains(minor))
    }

    fn refusal(&self, circuit: CircuitId) -> impl FnOnce(io::Errno) -> Error {
        Error::kernel(format!("keep {circuit} at {}", self.interface))
    }
}

impl Driver for Shaper {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            rate_min: RATE_MIN,
            rate_max: self.capacity,
            granularity: GRANULARITY,
            guard: Duration::ZERO,
            entries_max: CIRCUITS_MAX,
            is_hitless: true,
            overhead_bytes: ETHERNET_BYTES,
        }
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        let mut answers = self.send(changes);
        let failed: Vec<usize> = (0..changes.len())
            .filter(|nth| answers[*nth].is_err())
            .collect();
        // somebody may have changed the interface beneath us: look again, once
        if !failed.is_empty() {
            if let Err(why) = self.refresh() {
                let answers = answers.into_iter();
                return answers
                    .map(|answer| answer.map_err(|_| why.clone()))
                    .collect();
            }
            let again: Vec<Change<'_>> = failed.iter().map(|nth| changes[*nth]).collect();
            for (nth, answer) in failed.into_iter().zip(self.send(&again)) {
                answers[nth] = answer;
            }
        }
        let answers = changes.iter().zip(answers);
        answers
            .map(|(change, answer)| answer.map_err(self.refusal(change.circuit.id)))
            .collect()
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        let Some(circuit) = self.circuits.get(&id).copied() else {
            return Ok(());
        };
        let messages = if self.circuits.len() == 1 {
            let root = self.subject(MAJOR, ROOT);
            vec![Message::new(RTM_DELQDISC, NLM_F_ACK, root)]
        } else {
            let class = self.subject(MAJOR | u32::from(circuit.minor), 0);
            vec![
                self.filter(RTM_DELTFILTER, 0, &circuit),
                Message::new(RTM_DELTCLASS, NLM_F_ACK, class),
            ]
        };
        let answers = self.netlink.ask(&messages);
        let Err(why) = answers.into_iter().collect::<io::Result<()>>() else {
            self.is_ours = self.circuits.len() > 1;
            self.circuits.remove(&id);
            return Ok(());
        };
        // somebody else may have taken it away
        self.refresh()?;
        if self.circuits.contains_key(&id) {
            let what = format!("take {id} from {}", self.interface);
            return Err(Error::kernel(what)(why));
        }
        Ok(())
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        self.refresh()?;
        let standing = self.circuits.iter().map(|(id, circuit)| InstalledCircuit {
            id: *id,
            flow: circuit.flow,
            rate: circuit.rate,
        });
        Ok(standing.collect())
    }
}

/// Adds what a filter is: the program of `label`, leading to `class`.
fn write_filter(message: Message, label: &Label, class: u32) -> Message {
    let program = label.write();
    let steps = (program.len() / PROGRAM_STEP) as u16;
    message.with_nest(TCA_OPTIONS, |inner| {
        inner
            .with(TCA_BPF_CLASSID, &class.to_ne_bytes())
            .with(TCA_BPF_OPS_LEN, &steps.to_ne_bytes())
            .with(TCA_BPF_OPS, &program)
    })
}

/// The upper half of our numbers, "LH".
const MAJOR: u32 = 0x4c48_0000;
/// The class that has the interface's capacity, and the one of the rest.
const WHOLE: u32 = 1;
const REST: u32 = 0xffff;
const MINOR_FIRST: u16 = 2;
const MINOR_LAST: u16 = 0xfffe;
/// Every filter is asked in turn for every packet.
const CIRCUITS_MAX: usize = 1024;
/// What the rest always gets. In a slower class one train of 64 KiB would wait for minutes behind another.
const RATE_MIN: Rate = Rate::from_mbps(1);
/// The kernel counts octets in 64 bits, and multiplies them.
const RATE_MAX: Rate = Rate::from_mbps(10_000_000);
/// The kernel counts octets.
const GRANULARITY: Rate = match Rate::from_bps(8) {
    Some(rate) => rate,
    None => Rate::UNLIMITED,
};
/// The head of Ethernet; preamble, check sum and gap are not counted.
const ETHERNET_BYTES: u16 = 14;
const PROGRAM_STEP: usize = 8;

const ROOT: u32 = u32::MAX;
/// `ETH_P_ALL` as it lies on the wire.
const ANY_PACKET: u32 = 3_u16.to_be() as u32;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const RTM_DELTCLASS: u16 = 41;
const RTM_GETTCLASS: u16 = 42;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const TCA_BPF_CLASSID: u16 = 3;
const TCA_BPF_OPS_LEN: u16 = 4;
