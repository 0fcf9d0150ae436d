//! Faults of a client that connects to a daemon.

use std::io;

use lighthaul_capture::refusal::Refusal;
use lighthaul_gateway::proxy_route::ProxyError;
use lighthaul_session::error::{Code, Error};

/// Fault of a client that connects to a daemon through gateways or over ssh.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The host or the port cannot be the target of a gateway.
    #[error("{host:?} port {port} is not a valid target for a gateway")]
    Target {
        /// Host name.
        host: String,
        /// Port.
        port: u16,
    },
    /// The gateways do not reach the daemon.
    #[error("{0}{advice}", advice = advice(.0))]
    Proxy(ProxyError),
    /// The ssh command has no words.
    #[error("the ssh command is empty")]
    NoCommand,
    /// The ssh program cannot be started.
    #[error("{program} could not be started: {error}")]
    NotStarted {
        /// Program.
        program: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The remote shell does not find the program.
    #[error("{remote} is not installed on {host}")]
    NotInstalled {
        /// Program.
        remote: String,
        /// Host.
        host: String,
    },
    /// ssh cannot connect or log in.
    #[error("ssh could not reach {host} or log in there")]
    NoLogin {
        /// Host.
        host: String,
    },
    /// The remote program did not print its greeting.
    #[error("{remote} on {host} did not answer")]
    NoGreeting {
        /// Program.
        remote: String,
        /// Host.
        host: String,
    },
}

impl CallError {
    /// Returns the exit status.
    const fn code(&self) -> Code {
        match self {
            Self::Target { .. } | Self::NoCommand => Code::Usage,
            Self::Proxy(error) => match error {
                ProxyError::PasswordRequired(_)
                | ProxyError::WrongPassword(_)
                | ProxyError::Refused {
                    why: Refusal::NotAllowed,
                    ..
                } => Code::Permission,
                ProxyError::NotSocks(_) => Code::Protocol,
                ProxyError::Io(_)
                | ProxyError::TimedOut(_)
                | ProxyError::Closed(_)
                | ProxyError::Refused { .. } => Code::Network,
            },
            Self::NotStarted { .. } | Self::NoLogin { .. } => Code::Network,
            Self::NotInstalled { .. } => Code::Open,
            Self::NoGreeting { .. } => Code::Protocol,
        }
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        if let CallError::Proxy(ProxyError::Io(error)) = error {
            return error.into();
        }
        Self::new(error.code(), error.to_string())
    }
}

/// Returns the remedy for a failed connection through gateways.
const fn advice(error: &ProxyError) -> &'static str {
    let ProxyError::Refused { why, .. } = error else {
        return "";
    };
    match why {
        Refusal::Refused => "; is `lighthaul serve` running there?",
        Refusal::Busy | Refusal::Broken | Refusal::Rejected => {
            "; `lighthaul gateway status` there shows whether they have a link"
        }
        Refusal::NotAllowed | Refusal::Unreachable | Refusal::TimedOut | Refusal::Unresolved => "",
    }
}
