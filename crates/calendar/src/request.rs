//! What is asked for.

use alloc::sync::Arc;
use core::time::Duration;

use lighthaul_base::{Instant, Rate};

use crate::path::Path;
use crate::stock::Owner;
use crate::topology::{LinkId, NodeId};

/// Capacity that somebody wants for a transfer (sections 3.1 and 5 of the paper).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whom it is counted for.
    pub owner: Owner,
    /// Of two that could be moved forward, or that an outage has put out, the higher one is first.
    pub priority: u8,
    /// Which links it crosses.
    pub way: Way,
    /// How much.
    pub need: Need,
    /// Less than this is not used, say since a host cannot send so slowly.
    pub rate_min: Option<Rate>,
    /// The paper's `R_max`: more than this is not used.
    pub rate_max: Rate,
    /// The paper's `T_req`: no bit before this.
    pub from: Instant,
    /// When all must be over.
    pub deadline: Option<Instant>,
    /// Whether the rate may vary.
    pub shape: Shape,
    /// Which steps it is given.
    pub detail: Detail,
}

/// Which links a request crosses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The best of several paths from one node to another.
    Between(NodeId, NodeId),
    /// The same, of those that cross an interface, with a circuit there.
    By(LinkId, NodeId, NodeId),
    /// This path.
    Over(Arc<Path>),
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A file.
    Size {
        /// Its bytes.
        bytes: u64,
        /// Millionths that are added for headers and resends (section 4.3 of the paper).
        margin_ppm: u32,
    },
    /// A holding time, in which the rate is always between the least and the most (section 5).
    Hold(Duration),
}

/// Whether a rate may vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// VBLS: whatever is free, up to the most. (A holding time never has less than its least.)
    #[default]
    Varying,
    /// FBLS: the most, all the time.
    Fixed,
}

/// Which steps a grant has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One for each rate, as devices need them.
    #[default]
    Joined,
    /// The paper's: one for each round, also where the rate stays.
    Rounds,
}

impl Need {
    /// A file without a margin.
    pub const fn bytes(bytes: u64) -> Self {
        Self::Size {
            bytes,
            margin_ppm: 0,
        }
    }

    /// Whether it is for nothing.
    pub(crate) const fn is_nothing(self) -> bool {
        matches!(
            self,
            Self::Size { bytes: 0, .. } | Self::Hold(Duration::ZERO)
        )
    }

    /// Bits times nanoseconds in a second: what a rate in bits a second carries in nanoseconds. Nothing of a holding time.
    pub fn work(self) -> u128 {
        match self {
            Self::Size { bytes, margin_ppm } => {
                let parts = 1_000_000 + u128::from(margin_ppm);
                let millionths = (u128::from(bytes) * WORK_PER_BYTE).saturating_mul(parts);
                millionths.div_ceil(1_000_000)
            }
            Self::Hold(_) => 0,
        }
    }
}

/// The work of one byte.
const WORK_PER_BYTE: u128 = 8_000_000_000;
