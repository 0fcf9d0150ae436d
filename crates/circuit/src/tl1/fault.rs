//! Faults of a switch and of its settings.

use std::time::Duration;

use crate::tl1::cross_connect::Port;
use crate::tl1::message::{Acknowledgement, Completion, Malformed};

/// Fault of a switch, or of the connection to it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SwitchFault {
    /// No connection can be established.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection was lost.
    #[error("the connection was lost during {command}: {why}")]
    Lost {
        /// Command at that time.
        command: String,
        /// Error of the system.
        why: String,
    },
    /// The switch did not answer in time.
    #[error("no answer to {command} within {} s{}", limit.as_secs_f64(), other_tag(other.as_deref()))]
    Silent {
        /// Name of the command.
        command: String,
        /// Time limit.
        limit: Duration,
        /// Tag of an answer to another command.
        other: Option<String>,
    },
    /// This process must stop, and waits for the switch no longer. The text names the command, or the connection.
    #[error("it did not answer before Lighthaul had to stop ({0})")]
    Stopping(String),
    /// The answer is not valid TL1.
    #[error("the answer to {command} is malformed: {why}")]
    Malformed {
        /// Name of the command.
        command: String,
        /// Fault of the answer.
        why: Malformed,
    },
    /// The switch refused a command.
    #[error("{command} was denied{}: {text}", code_text(code.as_deref()))]
    Denied {
        /// Name of the command.
        command: String,
        /// Error code of the switch.
        code: Option<String>,
        /// Reason of the switch.
        text: String,
    },
    /// The switch did not execute a command completely.
    #[error("{command} was not completed: {}", completion_text(*completion))]
    Incomplete {
        /// Name of the command.
        command: String,
        /// Completion code.
        completion: Completion,
    },
    /// The switch did not accept a command.
    #[error("{command} was not accepted: {}", acknowledgement_text(*code))]
    NotAccepted {
        /// Name of the command.
        command: String,
        /// Acknowledgement.
        code: Acknowledgement,
    },
    /// A list has a line that is not understood.
    #[error("the list of cross-connects has a line that is not understood: {0:?}")]
    Entry(String),
    /// Another client made the same cross-connect.
    #[error("another client of the switch made this cross-connect")]
    Taken,
    /// The light is too weak after a connect.
    #[error(
        "the power of light at port {port} is {power_dbm:.1} dBm, below the minimum of {min_dbm:.1} dBm, \
         so it is disconnected: check the fiber and its transmitter"
    )]
    LowPower {
        /// Output port.
        port: Port,
        /// Power in dBm.
        power_dbm: f64,
        /// Lowest accepted power in dBm.
        min_dbm: f64,
    },
    /// The switch reports no power of light.
    #[error("the switch reports no power of light at port {0}")]
    NoPower(Port),
}

impl SwitchFault {
    /// Returns true if the connection is unusable after the fault.
    pub const fn is_contact(&self) -> bool {
        matches!(
            self,
            Self::Connect(_)
                | Self::Lost { .. }
                | Self::Silent { .. }
                | Self::Stopping(_)
                | Self::Malformed { .. }
        )
    }
}

/// Fault of the settings of a switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsFault {
    /// The file cannot be read.
    #[error("{0}")]
    Read(String),
    /// The file is not valid TOML, or has an unknown key.
    #[error("{0}")]
    Toml(String),
    /// A value is not usable.
    #[error("{key}: {why}")]
    Value {
        /// Key of the value.
        key: String,
        /// Fault of the value.
        why: String,
    },
}

fn other_tag(other: Option<&str>) -> String {
    other.map_or_else(String::new, |tag| {
        format!(", only an answer to command {tag}")
    })
}

fn code_text(code: Option<&str>) -> String {
    code.map_or_else(String::new, |code| format!(" with {code}"))
}

const fn completion_text(completion: Completion) -> &'static str {
    match completion {
        Completion::Completed => "it was completed later",
        Completion::Denied => "it was denied",
        Completion::Partial => "it was executed in part only",
        Completion::Delayed => "it was delayed",
        Completion::Retrieved => "the rest of the answer is missing",
    }
}

const fn acknowledgement_text(code: Acknowledgement) -> &'static str {
    match code {
        Acknowledgement::InProgress => "it is in progress",
        Acknowledgement::PrintoutFollows => "its answer goes to another terminal",
        Acknowledgement::AllRight => "its answer is missing",
        Acknowledgement::NoAcknowledgement => "the switch lost it",
        Acknowledgement::NoGood => "the switch cannot execute it",
        Acknowledgement::RepeatLater => "the switch is busy",
    }
}
