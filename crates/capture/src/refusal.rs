//! Reasons for the refusal of a session.

/// Reasons for a refusal that protocols can express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No rule of the egress gateway allows the target.
    #[error("the gateway does not allow this target; its operator can allow it with --allow")]
    NotAllowed,
    /// The gateway has no route to the target.
    #[error("there is no path from the gateway to the target")]
    Unreachable,
    /// No program listens at the target.
    #[error("the target refused the connection")]
    Refused,
    /// The target did not answer.
    #[error("the target did not answer in time")]
    TimedOut,
    /// The name does not exist.
    #[error("the target's name cannot be resolved at the gateway")]
    Unresolved,
    /// The gateway has too many sessions.
    #[error("the gateway has no room for another session; try again later")]
    Busy,
    /// The other gateway refuses links from this gateway.
    #[error("the other gateway refuses this one; see the log and `lighthaul gateway status` here")]
    Rejected,
    /// The connection between the gateways failed.
    #[error("the gateways could not carry the connection")]
    Broken,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::NotAllowed,
        Self::Unreachable,
        Self::Refused,
        Self::TimedOut,
        Self::Unresolved,
        Self::Busy,
        Self::Broken,
        Self::Rejected,
    ];

    /// Returns the reply of SOCKS5 (RFC 1928, section 6).
    pub const fn reply(self) -> u8 {
        match self {
            Self::Busy | Self::Broken | Self::Rejected => 1,
            Self::NotAllowed => 2,
            Self::Unreachable => 3,
            Self::Unresolved => 4,
            Self::Refused => 5,
            Self::TimedOut => 6,
        }
    }

    /// Returns the reason for an unsuccessful reply of SOCKS5.
    pub const fn of_reply(reply: u8) -> Self {
        match reply {
            2 => Self::NotAllowed,
            3 => Self::Unreachable,
            4 => Self::Unresolved,
            5 => Self::Refused,
            6 => Self::TimedOut,
            _ => Self::Broken,
        }
    }

    /// Returns the HTTP status, and the error type of `Proxy-Status` (RFC 9209, section 2.3).
    pub const fn status(self) -> (&'static str, &'static str) {
        match self {
            Self::NotAllowed => ("403 Forbidden", "destination_ip_prohibited"),
            Self::Unreachable => ("502 Bad Gateway", "destination_ip_unroutable"),
            Self::Refused => ("502 Bad Gateway", "connection_refused"),
            Self::TimedOut => ("504 Gateway Timeout", "connection_timeout"),
            Self::Unresolved => ("502 Bad Gateway", "dns_error"),
            Self::Rejected => ("502 Bad Gateway", "proxy_configuration_error"),
            Self::Busy => ("503 Service Unavailable", "connection_limit_reached"),
            Self::Broken => ("502 Bad Gateway", "connection_terminated"),
        }
    }
}
