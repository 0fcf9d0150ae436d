//! Faults of a client that connects to a daemon.

use lighthaul_capture::refusal::Refusal;
use lighthaul_gateway::proxy_route::ProxyError;
use lighthaul_session::error::{Code, Coded};

/// Fault of a client that connects to a daemon through gateways.
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
}

impl Coded for CallError {
    fn code(&self) -> Code {
        match self {
            Self::Target { .. } => Code::Usage,
            Self::Proxy(error) => match error {
                ProxyError::PasswordRequired(_)
                | ProxyError::WrongPassword(_)
                | ProxyError::Refused {
                    why: Refusal::NotAllowed,
                    ..
                } => Code::Permission,
                ProxyError::NotSocks(_) => Code::Protocol,
                ProxyError::Io(error) => error.code(),
                ProxyError::TimedOut(_) | ProxyError::Closed(_) | ProxyError::Refused { .. } => {
                    Code::Network
                }
            },
        }
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
