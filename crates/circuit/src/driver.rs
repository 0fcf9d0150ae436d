//! Interface to a device that enforces circuits.

use std::fmt;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_calendar::Limits;
use serde::{Deserialize, Serialize};

use crate::circuit::{Circuit, CircuitId};
use crate::error::{Error, Misuse, Result};
use crate::flow::Flow;
use lighthaul_calendar::circuit_timer::{TIMER_MAX_MIN, TIMER_SLACK};

/// Driver of one device. It has no clock: its owner calls it at the times of changes, even if the device has timers.
///
/// Every call returns within a bounded time and can be repeated: a change that is in force already succeeds.
pub trait Driver: fmt::Debug + Send {
    /// Returns the abilities and limits of the device.
    fn capabilities(&self) -> Capabilities;

    /// Sets the rates of circuits in the order of `changes`, and creates missing circuits. Returns one result for each
    /// change. A circuit without a rate exists but takes no packets; these are forwarded as all others. Rates are those
    /// of [`Capabilities::fit`]; any other is refused or rounded down.
    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>>;

    /// Removes a circuit, and restores the device.
    fn remove(&mut self, id: CircuitId) -> Result<()>;

    /// Returns the circuits at the device that a driver created, read from the device itself.
    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>>;
}

/// Change of the rate of a circuit.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The circuit.
    pub circuit: &'a Circuit,
    /// New rate; none closes the circuit.
    pub rate: Option<Rate>,
    /// Time after which the device closes the circuit by itself; none to keep it open until a further change. Only
    /// circuits with a rate at devices with timers have one. Each change sets the timer again.
    pub timer: Option<Duration>,
}

impl<'a> Change<'a> {
    /// Returns a change of each circuit to the rate in the same pair, without timers.
    pub fn list(circuits: &'a [(Circuit, Option<Rate>)]) -> Vec<Self> {
        let change = |(circuit, rate): &'a (Circuit, Option<Rate>)| Self {
            circuit,
            rate: *rate,
            timer: None,
        };
        circuits.iter().map(change).collect()
    }
}

/// Circuit as it is configured at a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledCircuit {
    /// Identifier.
    pub id: CircuitId,
    /// Packets of the circuit; none if its configuration is damaged.
    pub flow: Option<Flow>,
    /// Rate; none if the circuit takes no packets.
    #[serde(rename = "rate_bps", with = "bits")]
    pub rate: Option<Rate>,
}

/// Abilities and limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Lowest rate of a circuit.
    pub rate_min: Rate,
    /// Highest rate of a circuit, and of the sum of all.
    pub rate_max: Rate,
    /// Granularity of rates: the channel of the device.
    pub granularity: Rate,
    /// Longest time from a request until the device has changed its state. A decrease may still use the old rate.
    pub reconfiguration: Duration,
    /// Time after a reconfiguration until a changed circuit carries packets reliably, as until light is steady.
    pub settling: Duration,
    /// Maximum number of circuits.
    pub entries_max: usize,
    /// Bytes that count against the rate.
    pub counted: CountedBytes,
    /// Longest setting of the timers with which the device closes circuits by itself; none if it has no timers.
    pub timer_max: Option<Duration>,
}

/// Bytes of a packet that a device counts against the rate of its circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedBytes {
    /// Lowest layer that counts whole.
    pub layer: Layer,
    /// Further bytes that count for each packet, as a preamble or a tag.
    pub overhead_bytes: u16,
}

/// Layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Data behind the headers of IP and transport.
    Payload,
    /// IP packet with its headers.
    Ip,
    /// Ethernet frame with its header of 14 bytes, without its check sequence.
    Link,
}

impl CountedBytes {
    /// Bytes of the IP packet only.
    pub const IP: Self = Self {
        layer: Layer::Ip,
        overhead_bytes: 0,
    };

    /// Returns the bytes that count for a packet of `payload` bytes with `headers` bytes of IP and transport.
    pub const fn of_packet(self, payload: u32, headers: u32) -> u64 {
        let below = match self.layer {
            Layer::Payload => 0,
            Layer::Ip => headers as u64,
            Layer::Link => headers as u64 + ETHERNET_BYTES,
        };
        payload as u64 + below + self.overhead_bytes as u64
    }

    /// Returns the bytes that count for each packet in addition to the packet of IP. The headers of IP always count
    /// here, since a plan does not know them.
    const fn beyond_ip(self) -> u16 {
        let below = match self.layer {
            Layer::Payload | Layer::Ip => 0,
            Layer::Link => ETHERNET_BYTES as u16,
        };
        self.overhead_bytes.saturating_add(below)
    }
}

impl Capabilities {
    /// Refuses contradictory capabilities.
    pub fn check(&self) -> Result<()> {
        let wrong = |misuse: Misuse| Err(Error::from(misuse));
        if self.rate_min > self.rate_max {
            return wrong(Misuse::RateRange);
        }
        if self.granularity > self.rate_max {
            return wrong(Misuse::Granularity);
        }
        if !(1..=ENTRIES_MAX).contains(&self.entries_max) {
            return wrong(Misuse::Entries { max: ENTRIES_MAX });
        }
        if self.guard() > GUARD_MAX {
            return wrong(Misuse::Guard);
        }
        if self.timer_max.is_some_and(|most| most < TIMER_MAX_MIN) {
            return wrong(Misuse::Timer);
        }
        Ok(())
    }

    /// Returns the guard time around a change: the device changes its state, and then settles.
    pub const fn guard(&self) -> Duration {
        self.reconfiguration.saturating_add(self.settling)
    }

    /// Returns the setting of the timer of a circuit that keeps its rate for `time`; none if the device has no timers.
    pub fn timer(&self, time: Duration) -> Option<Duration> {
        let most = self.timer_max?;
        Some(time.saturating_add(self.guard() + TIMER_SLACK).min(most))
    }

    /// Returns the limits of the device for a calendar.
    pub const fn limits(&self) -> Limits {
        Limits {
            capacity: self.rate_max,
            channel: self.granularity,
            least: self.rate_min,
            guard: self.guard(),
            packet_bytes: self.counted.beyond_ip(),
            circuits_max: self.entries_max,
        }
    }

    /// Returns the rate that the device uses for `rate`: the next lower multiple of the granularity. Returns nothing if
    /// the rate is out of range, or if this is at least a kilobit a second less.
    pub fn fit(&self, rate: Rate) -> Option<Rate> {
        let bits = rate.as_bps();
        let lost = bits % self.granularity.as_bps();
        let is_kept = (self.rate_min..=self.rate_max).contains(&rate) && lost < 1000;
        Rate::from_bps(bits - lost).filter(|_| is_kept)
    }
}

/// Rates in bits a second, as programs read and write them; zero is none.
mod bits {
    use lighthaul_base::Rate;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "required by serde")]
    pub(super) fn serialize<S: Serializer>(rate: &Option<Rate>, to: S) -> Result<S::Ok, S::Error> {
        rate.map_or(0, Rate::as_bps).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Rate>, D::Error> {
        u64::deserialize(from).map(Rate::from_bps)
    }
}

/// Limit of the class numbers of a kernel.
const ENTRIES_MAX: usize = 65_000;
/// Longest guard time of a device.
pub const GUARD_MAX: Duration = Duration::from_mins(10);
/// Header of an Ethernet frame.
const ETHERNET_BYTES: u64 = 14;
