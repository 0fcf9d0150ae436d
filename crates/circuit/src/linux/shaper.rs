//! Driver of one interface: an HTB class for each circuit, and a filter that classifies its packets.
//!
//! ```text
//! interface -- 4c48: htb -- 4c48:1 the capacity -+- 4c48:ffff the rest: borrows unused bandwidth
//!                                                +- 4c48:2    a circuit with its rate
//!                                                +- 4c48:3    a circuit that takes no packets now
//! ```
//!
//! The handle `4c48:` and a mark in each filter (`filter`) identify objects of this driver. A class is created when a
//! circuit is set up. A change of the rate updates the class in place, and opens or closes the filter if necessary.
//! Packets that wait in a class that closes are sent as part of the rest. The kernel has no timers for this, so
//! an unchanged class keeps its rate.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_kernel::htb::{self, Class, TCA_KIND, TCA_OPTIONS};
use lighthaul_kernel::tc_message::{Message, Subject};
use rustix::io;

use crate::circuit::CircuitId;
use crate::driver::{Capabilities, Change, CountedBytes, Driver, InstalledCircuit, Layer};
use crate::error::{Conflict, Error, Misuse, Result, Task};
use crate::flow::Flow;
use crate::linux::filter::Label;
use crate::linux::netlink::Netlink;
use crate::linux::tc_object::{RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER, TCA_BPF_OPS, TcObject};

/// Driver of an interface in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Shaper {
    netlink: Netlink,
    interface: String,
    index: u32,
    /// Capacity of the interface, shared by all circuits and the rest.
    capacity: Rate,
    /// True if the queueing discipline of this driver is installed.
    is_ours: bool,
    circuits: BTreeMap<CircuitId, KernelCircuit>,
}

/// Circuit in the kernel.
#[derive(Clone, Copy, Debug)]
struct KernelCircuit {
    /// Minor number of the class and the filter.
    minor: u16,
    /// Flow; none if the class or the filter is damaged.
    flow: Option<Flow>,
    rate: Option<Rate>,
    priority: u16,
}

impl Shaper {
    /// Opens the interface, unless another program shapes it. The first circuit changes it; the last restores it.
    pub fn open(interface: &str, capacity: Rate) -> Result<Self> {
        if !(RATE_MIN..=RATE_MAX).contains(&capacity) {
            let misuse = Misuse::Capacity {
                interface: interface.to_owned(),
                capacity,
                min: RATE_MIN,
                max: RATE_MAX,
            };
            return Err(misuse.into());
        }
        let mut shaper = Self {
            netlink: Netlink::open().map_err(Error::kernel(Task::Netlink))?,
            interface: interface.to_owned(),
            index: 0,
            capacity,
            is_ours: false,
            circuits: BTreeMap::new(),
        };
        shaper.refresh()?;
        Ok(shaper)
    }

    /// Reads the current circuits of the interface.
    fn refresh(&mut self) -> Result<()> {
        let task = Task::Inspect(self.interface.clone());
        let index = self.netlink.index_of(&self.interface);
        self.index = index.map_err(Error::kernel(task.clone()))?;
        self.is_ours = self.check_root()?;
        self.circuits.clear();
        if !self.is_ours {
            return Ok(());
        }
        let rates = self.classes().map_err(Error::kernel(task.clone()))?;
        let filters = self.filters().map_err(Error::kernel(task))?;
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

    /// Returns true if the root discipline is the one that this driver installed. Fails for one of another program.
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
        let task = Task::Inspect(self.interface.clone());
        let roots = roots.map_err(Error::kernel(task))?;
        // default disciplines of the kernel have no handle
        match roots.into_iter().find(|(handle, ..)| *handle != 0) {
            None => Ok(false),
            Some((MAJOR, _, Some(REST))) => Ok(true),
            Some((handle, kind, _)) => Err(Error::Foreign {
                interface: self.interface.clone(),
                qdisc: format!("{kind} {:x}:", handle >> 16),
            }),
        }
    }

    /// Returns the rates of the classes.
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

    /// Returns the filters with the mark of this driver.
    fn filters(&mut self) -> io::Result<Vec<TcObject>> {
        let all = Message::new(RTM_GETTFILTER, NLM_F_DUMP, self.subject(0, MAJOR));
        self.netlink.dump(&all, |reply| TcObject::of(&reply))
    }

    /// Sends all changes to the kernel. Returns the first error of each.
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

    /// Returns the state of a circuit after a change, and the messages for it.
    fn plan(
        &self,
        change: &Change<'_>,
        minors: &mut impl Iterator<Item = u16>,
    ) -> (KernelCircuit, Vec<Message>) {
        let flow = change.circuit.flow;
        let before = self.circuits.get(&change.circuit.id);
        let minor = before.map(|before| before.minor);
        let circuit = KernelCircuit {
            // there are more numbers than circuits
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
            // first the filter closes, then the class loses its rate
            Some(_) if change.rate.is_none() => messages.extend([filter(), class]),
            _ => messages.extend([class, filter()]),
        }
        (circuit, messages)
    }

    /// Installs the root discipline, with classes for the reserved capacity and for all other packets.
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

    /// Returns the message that creates or changes the class of a circuit. A closed class keeps the lowest rate, and
    /// its remaining packets borrow unused bandwidth.
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

    /// Returns a message about the filter of a circuit.
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

    /// Returns unused minor numbers. A class without a filter, left by a killed process, is used again.
    fn free_minors(&self) -> impl Iterator<Item = u16> + use<> {
        let taken: BTreeSet<u16> = self
            .circuits
            .values()
            .map(|circuit| circuit.minor)
            .collect();
        (MINOR_FIRST..MINOR_LAST).filter(move |minor| !taken.contains(minor))
    }

    /// Makes all changes. After a failure they are repeated, once: another program may have changed the interface.
    fn apply_all(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        let mut answers = self.send(changes);
        let failed: Vec<usize> = (0..changes.len())
            .filter(|nth| answers[*nth].is_err())
            .collect();
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

    fn refusal(&self, circuit: CircuitId) -> impl FnOnce(io::Errno) -> Error {
        let interface = self.interface.clone();
        Error::kernel(Task::Keep {
            id: circuit,
            interface,
        })
    }
}

impl Driver for Shaper {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            rate_min: RATE_MIN,
            rate_max: self.capacity,
            granularity: GRANULARITY,
            reconfiguration: Duration::ZERO,
            settling: Duration::ZERO,
            entries_max: CIRCUITS_MAX,
            counted: CountedBytes {
                layer: Layer::Link,
                overhead_bytes: 0,
            },
            timer_max: None,
        }
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        let mut count = self.circuits.len();
        let full = changes.iter().position(|change| {
            count += usize::from(!self.circuits.contains_key(&change.circuit.id));
            count > CIRCUITS_MAX
        });
        let (changes, beyond) = changes.split_at(full.unwrap_or(changes.len()));
        let mut answers = self.apply_all(changes);
        // filters are tried one after the other for each packet
        answers.extend(beyond.iter().map(|change| {
            let interface = self.interface.clone();
            let (id, max) = (change.circuit.id, CIRCUITS_MAX);
            let conflict = Conflict::Full { interface, max };
            Err(Error::Busy { id, conflict })
        }));
        answers
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
        // another program may have removed it
        self.refresh()?;
        if self.circuits.contains_key(&id) {
            let interface = self.interface.clone();
            let task = Task::Remove { id, interface };
            return Err(Error::kernel(task)(why));
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

/// Adds the program of `label`, which classifies into `class`.
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

/// Major number of all objects, "LH".
const MAJOR: u32 = 0x4c48_0000;
/// Class of the reserved capacity.
const WHOLE: u32 = 1;
/// Class of all other packets.
const REST: u32 = 0xffff;
/// First class number of a circuit.
const MINOR_FIRST: u16 = 2;
/// Last class number of a circuit.
const MINOR_LAST: u16 = 0xfffe;
/// Maximum number of circuits.
const CIRCUITS_MAX: usize = 1024;
/// Guaranteed rate of packets without a circuit. In a slower class, a batch of 64 KiB could wait for minutes.
const RATE_MIN: Rate = Rate::from_mbps(1);
/// Maximum rate, so that the kernel's 64-bit arithmetic does not overflow.
const RATE_MAX: Rate = Rate::from_mbps(10_000_000);
/// Granularity of rates: the kernel counts octets.
const GRANULARITY: Rate = match Rate::from_bps(8) {
    Some(rate) => rate,
    None => Rate::UNLIMITED,
};
const PROGRAM_STEP: usize = 8;

const ROOT: u32 = u32::MAX;
/// `ETH_P_ALL` in network byte order.
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
