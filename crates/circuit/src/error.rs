//! Faults of circuits, each with one text.
//!
//! [`Error`] separates requests that can never succeed, conflicts that pass, devices that fail, and the kernel. Callers
//! retry by variant, never by text. The text names the circuit, the fault and, where there is one, the remedy.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::trc::TrcError;
use rustix::io::Errno;

use crate::circuit::CircuitId;
use crate::tl1::fault::{SettingsFault, SwitchFault};

/// Fault of a request, of a device, of a driver's program, or of the kernel.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The request can never succeed.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The request can succeed once another circuit has ended.
    #[error("{id}: {conflict}")]
    Busy {
        /// Requested circuit.
        id: CircuitId,
        /// Conflict with other circuits.
        conflict: Conflict,
    },
    /// Another program shapes the interface.
    #[error(
        "{interface} is shaped by {qdisc} of another program: remove it with `tc qdisc del dev {interface} root` \
         if it is not needed, or give circuits another interface"
    )]
    Foreign {
        /// Name of the interface.
        interface: String,
        /// Queueing discipline of the other program.
        qdisc: String,
    },
    /// A call of the kernel failed.
    #[error("cannot {task}: {source}{hint}", hint = hint(*source))]
    Kernel {
        /// Task of the call.
        task: Task,
        /// Error of the kernel.
        source: Errno,
    },
    /// The program of a driver failed.
    #[error("{program} failed: {fault}")]
    Program {
        /// Name of the program.
        program: String,
        /// Fault of the program.
        fault: ProgramFault,
    },
    /// A switch, or the connection to it, failed.
    #[error("switch {address}: {fault}")]
    Switch {
        /// Address of the switch.
        address: String,
        /// Fault of the switch.
        fault: SwitchFault,
    },
    /// Other clients of a switch use the ports of an interface.
    #[error(
        "{interface} has no free channel, because other clients of the switch made {cross_connects}: \
         remove these cross-connects, or give circuits other ports"
    )]
    Occupied {
        /// Name of the interface.
        interface: String,
        /// Cross-connects of the other clients.
        cross_connects: String,
    },
    /// The record of the channels of circuits cannot be used.
    #[error("cannot keep the record of channels in {}: {why}", path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
    /// The device refused a change, for the given reason.
    #[error("the device refused: {0}")]
    Device(String),
    /// The device did not answer the driver, for the given reason.
    #[error("the device does not answer: {0}")]
    Unreachable(String),
    /// The device could not be read since the start, for the given reason.
    #[error(
        "the device could not be read since the start: {0}; make it available, and request the circuit again"
    )]
    NeverRead(String),
    /// The driver returned fewer results than changes.
    #[error("the driver gave no answer for this change")]
    NoAnswer,
}

/// Request that can never succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// The lowest rate of a device is above its highest rate.
    #[error("the slowest circuit of a device cannot be faster than its fastest one")]
    RateRange,
    /// The granularity of a device is above its highest rate.
    #[error("the granularity of a device cannot be above the rate of its fastest circuit")]
    Granularity,
    /// A device has no circuits, or too many.
    #[error("a device must have from 1 to {max} circuits")]
    Entries {
        /// Maximum for any device.
        max: usize,
    },
    /// The guard time of a device is too long.
    #[error("the guard time of a device is at most ten minutes")]
    Guard,
    /// The timers of a device are too short.
    #[error("the timers of a device can be set to four seconds or more")]
    Timer,
    /// The capacity of an interface is out of range.
    #[error("{interface} cannot carry {capacity}: give its capacity, from {min} to {max}")]
    Capacity {
        /// Name of the interface.
        interface: String,
        /// Requested capacity.
        capacity: Rate,
        /// Lowest capacity.
        min: Rate,
        /// Highest capacity.
        max: Rate,
    },
    /// The path of a driver's program is relative.
    #[error("the path of the driver's program {} is not absolute", .0.display())]
    RelativeProgram(PathBuf),
    /// The time limit of a driver's program is zero or too long.
    #[error("the time limit of a driver's program must be above zero and at most ten minutes")]
    TimeLimit,
    /// The settings of a switch are not usable.
    #[error("the settings of a switch in {} cannot be used: {fault}", path.display())]
    SwitchSettings {
        /// Path of the file.
        path: PathBuf,
        /// Fault of the settings.
        fault: SettingsFault,
    },
    /// A rate needs more channels than are free.
    #[error("{interface} has {free} free channels, but the rate needs {needed} more")]
    Channels {
        /// Name of the interface.
        interface: String,
        /// Free channels.
        free: usize,
        /// Missing channels.
        needed: usize,
    },
    /// The agent has no driver for an interface.
    #[error("no driver is set up for the interface {interface}, only for: {known}")]
    UnknownInterface {
        /// Requested interface.
        interface: String,
        /// Interfaces with a driver.
        known: String,
    },
    /// The vector of a circuit is not usable.
    #[error("{id}: {fault}")]
    Vector {
        /// Number of the circuit.
        id: CircuitId,
        /// Fault of the vector.
        fault: TrcError,
    },
    /// The lease of a circuit has expired already.
    #[error("{0}: its lease ends before it begins: give it a longer lease")]
    Lease(CircuitId),
    /// The device does not support a rate.
    #[error(
        "{id}: {interface} does not support {rate}; use a multiple of {granularity} from {min} to {max}"
    )]
    Rate {
        /// Number of the circuit.
        id: CircuitId,
        /// Name of the interface.
        interface: String,
        /// Rate of the circuit.
        rate: Rate,
        /// Granularity of the device.
        granularity: Rate,
        /// Lowest rate of the device.
        min: Rate,
        /// Highest rate of the device.
        max: Rate,
    },
    /// The circuit does not exist.
    #[error("there is no {0} here: it has ended, or was never added")]
    UnknownCircuit(CircuitId),
}

/// Conflict of a circuit with others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another circuit has the identifier.
    #[error("its identifier is taken: wait until that circuit has ended, or use another one")]
    Identifier,
    /// The device has its maximum of circuits.
    #[error("{interface} has {max} circuits already: release one")]
    Full {
        /// Name of the interface.
        interface: String,
        /// Maximum of the device.
        max: usize,
    },
    /// Another circuit takes the same packets.
    #[error("{0} takes the same packets at the same time: give one of them other ports")]
    Packets(CircuitId),
}

/// Task for which the kernel was called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Task {
    /// Open a netlink socket.
    #[error("ask the kernel about interfaces")]
    Netlink,
    /// Read the state of an interface.
    #[error("read the state of {0}")]
    Inspect(String),
    /// Set up or change a circuit.
    #[error("set up {id} at {interface}")]
    Keep {
        /// Number of the circuit.
        id: CircuitId,
        /// Name of the interface.
        interface: String,
    },
    /// Remove a circuit.
    #[error("remove {id} from {interface}")]
    Remove {
        /// Number of the circuit.
        id: CircuitId,
        /// Name of the interface.
        interface: String,
    },
    /// Create an event descriptor.
    #[error("create an event descriptor")]
    Event,
    /// Start a thread.
    #[error("start a thread")]
    Thread,
}

/// Fault of a driver's program.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProgramFault {
    /// The program could not be run.
    #[error("{why}{tail}")]
    Run {
        /// Error of the system.
        why: String,
        /// End of the program's standard error.
        tail: String,
    },
    /// The program ended without an answer.
    #[error("it ended before its answer with {status}{tail}")]
    Exit {
        /// Exit status.
        status: ExitStatus,
        /// End of the program's standard error.
        tail: String,
    },
    /// The program closed its output, but still runs.
    #[error("it closed its standard output and was killed{tail}")]
    Closed {
        /// End of the program's standard error.
        tail: String,
    },
    /// The program speaks another version of the protocol.
    #[error(
        "it speaks version {theirs} of the driver protocol, and only version {ours} is known here: \
         use a release of the driver for version {ours}"
    )]
    Version {
        /// Version of the program.
        theirs: u32,
        /// Version of the protocol that Lighthaul speaks.
        ours: u32,
    },
    /// The program started again with other capabilities.
    #[error("its capabilities have changed since the start: start Lighthaul again to use them")]
    Changed,
    /// The program did not execute the request, for the given reason.
    #[error("it did not execute the request: {0}")]
    Declined(String),
    /// The program failed repeatedly, and is not started again yet.
    #[error("it is started again in {} s, because it failed: {last}", wait.as_secs_f64().ceil())]
    Resting {
        /// Time until the next start.
        wait: Duration,
        /// Last fault.
        last: String,
    },
    /// The program exceeded its time limit.
    #[error("it did not answer within {} s and was killed{tail}", limit.as_secs_f64())]
    TimedOut {
        /// Time limit.
        limit: Duration,
        /// End of the program's standard error.
        tail: String,
    },
    /// This process must stop, and waits for the program no longer.
    #[error("it did not answer before Lighthaul had to stop, and was killed{tail}")]
    Stopping {
        /// End of the program's standard error.
        tail: String,
    },
    /// The output of the program is too long.
    #[error("a line of its output is too long{tail}")]
    Output {
        /// End of the program's standard error.
        tail: String,
    },
    /// The output of the program is not a valid answer.
    #[error("it answered {begin:?}, which is not a valid answer: {why}")]
    Malformed {
        /// Start of the output.
        begin: String,
        /// Fault of the output.
        why: String,
    },
    /// The answer of the program has no results, or not one for each change.
    #[error("it gave no answer to the request, or no answer for every change")]
    NoAnswer,
}

/// Party at fault, by which an owner decides to repeat a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The request, which can never succeed.
    Request,
    /// Another circuit, which may end.
    Busy,
    /// The device, which refused.
    Refused,
    /// The device or the driver, which did not answer. It is not known whether the change was made.
    NoAnswer,
    /// Another program or client, which uses the device.
    Foreign,
    /// This host.
    Host,
}

/// Result of an operation on circuits.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the party at fault.
    pub const fn cause(&self) -> Cause {
        match self {
            Self::Misuse(_) => Cause::Request,
            Self::Busy { .. } => Cause::Busy,
            Self::Device(_) => Cause::Refused,
            Self::Program { fault, .. } => match fault {
                ProgramFault::Declined(_) => Cause::Refused,
                ProgramFault::Run { .. }
                | ProgramFault::Exit { .. }
                | ProgramFault::Closed { .. }
                | ProgramFault::Version { .. }
                | ProgramFault::Changed
                | ProgramFault::Resting { .. }
                | ProgramFault::TimedOut { .. }
                | ProgramFault::Stopping { .. }
                | ProgramFault::Output { .. }
                | ProgramFault::Malformed { .. }
                | ProgramFault::NoAnswer => Cause::NoAnswer,
            },
            Self::Switch { fault, .. } if !fault.is_contact() => Cause::Refused,
            Self::Switch { .. } | Self::Unreachable(_) | Self::NeverRead(_) | Self::NoAnswer => {
                Cause::NoAnswer
            }
            Self::Foreign { .. } | Self::Occupied { .. } => Cause::Foreign,
            Self::Kernel { .. } | Self::Record { .. } => Cause::Host,
        }
    }

    /// Returns the conversion of an error of the kernel, for `map_err`.
    pub(crate) fn kernel(task: Task) -> impl FnOnce(Errno) -> Self {
        |source| Self::Kernel { task, source }
    }

    /// Returns the conversion of an error of the standard library, for `map_err`.
    pub(crate) fn world(task: Task) -> impl FnOnce(io::Error) -> Self {
        move |why| {
            let source = Errno::from_io_error(&why).unwrap_or(Errno::IO);
            Self::kernel(task)(source)
        }
    }
}

/// Returns the remedy for frequent errors of the kernel.
const fn hint(source: Errno) -> &'static str {
    match source {
        Errno::PERM | Errno::ACCESS => "; it needs root or CAP_NET_ADMIN in this namespace",
        Errno::NOENT => "; it needs a kernel with sch_htb and cls_bpf",
        _ => "",
    }
}
