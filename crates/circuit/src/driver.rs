//! What makes one device keep circuits.

use std::fmt;
use std::time::Duration;

use lighthaul_base::Rate;
use serde::{Deserialize, Serialize};

use crate::circuit::{Circuit, CircuitId};
use crate::error::{Error, Result};
use crate::flow::Flow;

/// The hands at one device. It has no clock: whoever owns it says what holds from now on.
///
/// Every call answers within a bounded time, and may be made again: what is as asked already is a success.
pub trait Driver: fmt::Debug + Send {
    /// What the device can do, and what that costs; a scheduler grants nothing else.
    fn capabilities(&self) -> Capabilities;

    /// Gives circuits their rates from now on, in this order, and makes those that are not there; answers for each.
    /// At no rate a circuit stands but takes no packets, so that these go the ordinary way.
    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>>;

    /// Takes a circuit away; the device is as it was before.
    fn remove(&mut self, id: CircuitId) -> Result<()>;

    /// What stands at the device and carries our mark, read from the device itself.
    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>>;
}

/// A circuit and what holds for it from now on.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The circuit.
    pub circuit: &'a Circuit,
    /// Its rate, or none.
    pub rate: Option<Rate>,
}

/// A circuit as a device has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledCircuit {
    /// Its name.
    pub id: CircuitId,
    /// What it takes; nothing if it is broken.
    pub flow: Option<Flow>,
    /// How fast it is; nothing if it takes no packets.
    #[serde(with = "bits")]
    pub rate: Option<Rate>,
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The slowest circuit.
    pub rate_min: Rate,
    /// The fastest; all at one time are no faster together.
    pub rate_max: Rate,
    /// Rates are multiples of this: the channel.
    pub granularity: Rate,
    /// How long after a decrease others may have what it left: the time that the device takes to change.
    pub guard: Duration,
    /// How many circuits it keeps at one time.
    pub entries_max: usize,
    /// Whether packets go on while their circuit's rate changes.
    pub is_hitless: bool,
    /// What the device counts of each packet beside its IP packet.
    pub overhead_bytes: u16,
}

impl Capabilities {
    /// Refuses what no device can be.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Misuse(format!("a device cannot have {what}")));
        if self.rate_min > self.rate_max {
            return wrong("a slowest circuit that is faster than its fastest");
        }
        if self.granularity > self.rate_max {
            return wrong("channels that are faster than its fastest circuit");
        }
        if !(1..=ENTRIES_MAX).contains(&self.entries_max) {
            return wrong("no circuits at all, or more than 65,000: say how many it keeps");
        }
        if self.guard > GUARD_MAX {
            return wrong("a guard time above ten minutes");
        }
        Ok(())
    }

    /// The rate that the device keeps for `rate`: the next multiple of its granularity below. Nothing where a
    /// circuit would be too slow, too fast, or have less than was promised by a kilobit a second or more.
    pub fn fit(&self, rate: Rate) -> Option<Rate> {
        let bits = rate.as_bps();
        let lost = bits % self.granularity.as_bps();
        let is_kept = (self.rate_min..=self.rate_max).contains(&rate) && lost < 1000;
        Rate::from_bps(bits - lost).filter(|_| is_kept)
    }
}

/// Rates as bits a second, in what programs read and write.
mod bits {
    use lighthaul_base::Rate;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(rate: &Option<Rate>, to: S) -> Result<S::Ok, S::Error> {
        rate.map_or(0, Rate::as_bps).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Rate>, D::Error> {
        u64::deserialize(from).map(Rate::from_bps)
    }
}

/// As many as a kernel's class numbers can name, and some for its own.
const ENTRIES_MAX: usize = 65_000;
const GUARD_MAX: Duration = Duration::from_mins(10);
