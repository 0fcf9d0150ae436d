//! The protocols by their names, and what a transfer has to know of each before any machine is made.

use std::fmt;

use lighthaul_proto::{rbudp, sabul, stripe, vbtp};
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};

/// Stands for the protocol that suits the path.
pub const AUTO: &str = "auto";
/// The most octets of a protocol's name, or of another word for one of a few things.
pub const NAME_MAX: usize = 32;

/// What moves the objects of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// Reliable Blast UDP.
    #[default]
    Rbudp,
    /// One stream.
    Tcp,
    /// Many streams, on connections of their own.
    Ptcp,
    /// RBUDP with pauses while others have the receiver's processor.
    RbudpPlus,
    /// What follows the vector of a circuit.
    Vbtp,
    /// What leaves others on the path their part, as published.
    Sabul,
    /// The same by a second set of rules.
    SabulSwift,
}

impl Protocol {
    /// All that there are.
    pub const ALL: &[Self] = &[
        Self::Rbudp,
        Self::Tcp,
        Self::Ptcp,
        Self::RbudpPlus,
        Self::Vbtp,
        Self::Sabul,
        Self::SabulSwift,
    ];

    /// What people call it.
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

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|protocol| protocol.name() == name)
    }

    /// The length of its datagrams' heads.
    pub const fn head_len(self) -> usize {
        match self {
            Self::Rbudp | Self::RbudpPlus => rbudp::wire::HEAD_LEN,
            Self::Tcp | Self::Ptcp => stripe::wire::HEAD_LEN,
            Self::Vbtp => vbtp::wire::HEAD_LEN,
            Self::Sabul | Self::SabulSwift => sabul::wire::HEAD_LEN,
        }
    }

    /// Whether it needs datagrams.
    pub const fn is_datagrams(self) -> bool {
        match self {
            Self::Rbudp | Self::RbudpPlus | Self::Vbtp | Self::Sabul | Self::SabulSwift => true,
            Self::Tcp | Self::Ptcp => false,
        }
    }

    /// How many of `lanes` send an object for the first time at once.
    pub fn turns(self, lanes: u8) -> usize {
        match self {
            // while half of the lanes send, the others hear what came and send that again
            Self::Rbudp | Self::RbudpPlus | Self::Tcp | Self::Ptcp => {
                usize::from(lanes).div_ceil(2)
            }
            // one has the circuit, or learns what the path bears
            Self::Vbtp | Self::Sabul | Self::SabulSwift => 1,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The names of all that there are, as the peer is told.
pub fn names() -> Vec<String> {
    Protocol::ALL.iter().map(ToString::to_string).collect()
}

/// The one that somebody asked for by this name, or by none; nothing if the path is to decide.
pub fn asked(name: &str) -> Result<Option<Protocol>, Error> {
    if name == AUTO {
        return Ok(None);
    }
    if name.is_empty() {
        return Ok(Some(Protocol::default()));
    }
    let unknown = || {
        let all = names().join(", ");
        let text = format!("there is no protocol {name:?} here, but {all}");
        Error::new(Code::Protocol, text)
    };
    Protocol::named(name).map(Some).ok_or_else(unknown)
}
