//! Protocols by name, with the properties that a transfer needs before it creates machines.

use std::fmt;

use lighthaul_proto::{rbudp, sabul, stripe, vbtp};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fault::Fault;

/// Name that selects the protocol that suits the path.
pub const AUTO: &str = "auto";
/// Maximum number of octets of a protocol's name, or of another value from a fixed set.
pub const NAME_MAX: usize = 32;

/// Protocol that moves the objects of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// Reliable Blast UDP.
    #[default]
    Rbudp,
    /// One TCP stream.
    Tcp,
    /// Parallel TCP streams, on connections of their own.
    Ptcp,
    /// RBUDP with pauses while other processes have the receiver's processor.
    RbudpPlus,
    /// VBTP, which follows the vector of a circuit.
    Vbtp,
    /// SABUL as published, which leaves other flows their share.
    Sabul,
    /// SABUL with a second set of rules.
    SabulSwift,
}

impl Protocol {
    /// All protocols.
    pub const ALL: &[Self] = &[
        Self::Rbudp,
        Self::Tcp,
        Self::Ptcp,
        Self::RbudpPlus,
        Self::Vbtp,
        Self::Sabul,
        Self::SabulSwift,
    ];

    /// Returns the protocol's name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rbudp => "rbudp",
            Self::Tcp => "tcp",
            Self::Ptcp => "ptcp",
            Self::RbudpPlus => "rbudp+",
            Self::Vbtp => "vbtp",
            Self::Sabul => "sabul",
            Self::SabulSwift => "sabul-swift",
        }
    }

    /// Returns the protocol named `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|protocol| protocol.name() == name)
    }

    /// Returns the length of the header of the protocol's datagrams.
    pub const fn head_len(self) -> usize {
        match self {
            Self::Rbudp | Self::RbudpPlus => rbudp::wire::HEAD_LEN,
            Self::Tcp | Self::Ptcp => stripe::wire::HEAD_LEN,
            Self::Vbtp => vbtp::wire::HEAD_LEN,
            Self::Sabul | Self::SabulSwift => sabul::wire::HEAD_LEN,
        }
    }

    /// Returns true if the protocol needs datagrams.
    pub const fn is_datagrams(self) -> bool {
        match self {
            Self::Rbudp | Self::RbudpPlus | Self::Vbtp | Self::Sabul | Self::SabulSwift => true,
            Self::Tcp | Self::Ptcp => false,
        }
    }

    /// Returns the protocols that may replace this protocol during a transfer, if the user selected none.
    pub const fn alternatives(self) -> &'static [Self] {
        match self {
            Self::Tcp => &[Self::SabulSwift],
            // beside a busy receiver, RBUDP+ loses fewer packets than RBUDP, but is not faster
            Self::Rbudp
            | Self::RbudpPlus
            | Self::Ptcp
            | Self::Vbtp
            | Self::Sabul
            | Self::SabulSwift => &[],
        }
    }

    /// Returns the number of lanes, out of `lanes`, that send new packets at a time.
    pub fn turns(self, lanes: u8) -> usize {
        match self {
            // while half of the lanes send, the others receive feedback and send lost packets again
            Self::Rbudp | Self::RbudpPlus | Self::Tcp | Self::Ptcp => {
                usize::from(lanes).div_ceil(2)
            }
            // one lane uses the whole circuit, or measures the rate of the path
            Self::Vbtp | Self::Sabul | Self::SabulSwift => 1,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the names of all protocols, for the peer.
pub fn names() -> Vec<String> {
    Protocol::ALL.iter().map(ToString::to_string).collect()
}

/// Returns the protocol that the user asks for by `name`. Returns none for [`AUTO`], and for an empty name.
pub fn asked(name: &str) -> Result<Option<Protocol>, Error> {
    if name == AUTO || name.is_empty() {
        return Ok(None);
    }
    let unknown = || {
        Fault::UnknownProtocol {
            name: name.to_owned(),
            all: names().join(", "),
        }
        .into()
    };
    Protocol::named(name).map(Some).ok_or_else(unknown)
}
