//! Requests for capacity.

use alloc::sync::Arc;
use core::time::Duration;

use lighthaul_base::{Instant, Rate};

use crate::path::Path;
use crate::resource::Owner;
use crate::topology::{LinkId, NodeId};

/// Request for capacity for one transfer (sections 3.1 and 5 of the VBLS paper).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Owner to whom the booking is charged.
    pub owner: Owner,
    /// Priority: when bookings are moved, bookings with a higher value are placed first.
    pub priority: u8,
    /// Links that the booking may use.
    pub route: Route,
    /// Amount of data, or time, to book.
    pub need: Need,
    /// Lowest usable rate; slower steps are skipped. `None` permits every rate.
    pub rate_min: Option<Rate>,
    /// Highest usable rate (the paper's `R_max`).
    pub rate_max: Rate,
    /// Earliest start (the paper's `T_req`).
    pub from: Instant,
    /// Latest end. `None` permits every end within the horizon.
    pub deadline: Option<Instant>,
    /// Discipline: a varying or a fixed rate.
    pub shape: Shape,
    /// Granularity of the steps in the grant.
    pub detail: Detail,
}

/// Links that a request may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Best of several paths from the first node to the second.
    Between(NodeId, NodeId),
    /// Best of several paths that cross the interface, which makes the circuit.
    Through(LinkId, NodeId, NodeId),
    /// Exactly this path.
    Along(Arc<Path>),
}

/// Amount that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Amount of data.
    Size {
        /// Payload size in bytes.
        bytes: u64,
        /// Millionths that are added for headers and retransmissions (section 4.3 of the paper).
        margin_ppm: u32,
    },
    /// Holding time during which the rate stays between the lowest and the highest one (section 5).
    Hold(Duration),
}

/// Discipline: decides if the rate may vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// VBLS: uses the free rate up to the highest one. During a holding time it stays at least at
    /// the lowest one.
    #[default]
    Varying,
    /// FBLS: the highest rate, from start to end.
    Fixed,
}

/// Granularity of the steps in a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One step for each change of rate, as devices need them.
    #[default]
    Joined,
    /// One step for each scheduling round, as in the paper, even where the rate stays equal.
    Rounds,
}

impl Need {
    /// Returns a size without a margin.
    pub const fn bytes(bytes: u64) -> Self {
        Self::Size {
            bytes,
            margin_ppm: 0,
        }
    }

    /// Returns true for a size or a holding time of zero.
    pub(crate) const fn is_nothing(self) -> bool {
        matches!(
            self,
            Self::Size { bytes: 0, .. } | Self::Hold(Duration::ZERO)
        )
    }

    /// Returns the work in bits times nanoseconds per second: a rate in bit/s times a time in ns.
    /// Zero for a holding time.
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

/// Work of one byte.
const WORK_PER_BYTE: u128 = 8_000_000_000;
