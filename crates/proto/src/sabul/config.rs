//! Parameters on which both sides of a transfer agree.
//!
//! A [`Config`] has the lengths of object and packets ([`Framing`]), the rules of rate control
//! ([`Mode`]) and the initial state of the sender ([`Memory`]). A sender keeps its `Memory` from
//! one object of a session to the next, so the path is learned once. [`Config::check`] refuses
//! values that the machines cannot run with. Rates are in bits per second on the wire. Sections are
//! those of the SABUL paper.

use core::fmt;
use core::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_parts::packet_layout;

use super::competition::Competition;
use super::wire::{HEAD_LEN, PACKETS_MAX};

/// Parameters of one transfer. They are the same on both sides unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Lengths of the object and of its packets.
    pub framing: Framing,
    /// Rules of rate control. The receiver ignores it.
    pub mode: Mode,
    /// Initial state of the sender. The receiver uses only the round-trip time.
    pub memory: Memory,
    /// Upper limit of the rate. The receiver ignores it.
    pub rate_max: Rate,
    /// Maximum burst in bytes; the default is 1 ms at the rate. The receiver ignores it.
    pub burst: Option<u32>,
    /// Stream of the feedback.
    pub stream: u16,
    /// Largest flow window, in packets. A good value is the path's rate times the sum of SYN interval and round-trip
    /// time (section 3.4). The receiver ignores it.
    pub window_max: u32,
    /// Maximum number of ranges in a loss list.
    pub ranges_max: u32,
}

/// Set of rate-control rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The paper's rules.
    Paper,
    /// The initial rate, regardless of losses, as in the experiments of section 4.1 of the VBLS paper. Everything else
    /// is as in the paper.
    Fixed,
    /// Rules with a faster start and recovery, and fairness between flows of different start rate or round-trip time.
    Swift,
}

/// Knowledge about a path, from which the sender of the next object starts.
// fields: state of one set of rules, from one object to the next
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Rate on the wire in bits per second, headers included. [`Rate::UNLIMITED`] disables pacing, as on a stream.
    pub rate: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Time for which the previous object still sends new packets. The next begins after it.
    pub busy: Duration,
    /// True if a loss was seen. The flow window is then at its maximum.
    pub has_lost: bool,
    /// Rate up to which the start-up phase doubles the rate each round trip ([`Mode::Swift`]).
    pub start_max: Rate,
    /// True if `start_max` is a memory, which the path may exceed by now. The start-up phase then continues beyond it,
    /// more slowly ([`Mode::Swift`]).
    pub is_remembered: bool,
    /// True if the start-up phase has ended ([`Mode::Swift`]).
    pub has_started: bool,
    /// Time at which the rate was last lowered ([`Mode::Swift`]).
    pub lowered_at: Option<Instant>,
    /// Minimum one-way delay plus clock offset, in microseconds ([`Mode::Swift`]).
    pub delay_min: Option<u32>,
    /// Losses of the line, which do not depend on the rate ([`Mode::Swift`]).
    pub line: LossCount,
    /// SYN intervals without brake, queue or loss ([`Mode::Swift`]).
    pub calm: u32,
    /// Jump of the delay that was not judged yet ([`Mode::Swift`]).
    pub doubt: Option<DelayJump>,
    /// Time by which the route has become longer since the round-trip time was measured ([`Mode::Swift`]).
    pub longer: Duration,
    /// Factor by which the target delay is raised because of competing traffic, in thousandths ([`Mode::Swift`]).
    pub target_milli: u32,
    /// Signs of other flows ([`Mode::Swift`]).
    pub competition: Competition,
}

/// Jump of the delay that may come from a longer route instead of a queue, and the following reduction of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayJump {
    /// Rate before the reduction.
    pub rate: Rate,
    /// Queueing delay at that time, in microseconds.
    pub micros: u32,
    /// End of the pause. Packets that are sent later meet none of their own flow in the queue.
    pub frozen_till: Instant,
}

/// Number of packets sent, and number of packets lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCount {
    /// Packets sent.
    pub sent: u64,
    /// Sent packets that were lost.
    pub lost: u64,
}

impl Memory {
    /// Returns the state for a path that other flows may share: half of the measured `rate`, and the whole after the
    /// start-up.
    pub fn measured(rate: Rate, rtt: Duration) -> Self {
        Self {
            start_max: rate,
            competition: Competition::measured(rate.as_bps()),
            ..Self::new(rate.scaled(1, 2), rtt)
        }
    }

    /// Returns the state for a path that an earlier transfer measured at `rate`.
    pub fn remembered(rate: Rate, rtt: Duration) -> Self {
        Self {
            is_remembered: true,
            competition: Competition::remembered(rate.as_bps()),
            ..Self::measured(rate, rtt)
        }
    }

    /// Returns the rate that the path has carried, and true if others used the path. Then the last rate is only a share
    /// of it.
    pub fn carried(&self) -> (Rate, bool) {
        let highest = self.competition.carried_beside_others();
        let highest = highest.and_then(Rate::from_bps);
        let rate = highest.map_or(self.rate, |highest| highest.max(self.rate));
        (rate, highest.is_some())
    }

    /// Returns the state for a path with known rate and round-trip time, without other knowledge.
    pub const fn new(rate: Rate, rtt: Duration) -> Self {
        Self {
            rate,
            rtt,
            busy: Duration::ZERO,
            has_lost: false,
            start_max: Rate::UNLIMITED,
            is_remembered: false,
            has_started: false,
            lowered_at: None,
            delay_min: None,
            line: LossCount { sent: 0, lost: 0 },
            calm: 0,
            doubt: None,
            longer: Duration::ZERO,
            target_milli: 1000,
            competition: Competition::UNKNOWN,
        }
    }
}

/// Returns a rate in bits per second.
pub(super) fn rate_of(bps: f64) -> Rate {
    Rate::from_bps((bps as i64).unsigned_abs()).unwrap_or(Rate::UNLIMITED)
}

/// Lengths of an object and of its packets, with the header of this protocol.
pub type Framing = lighthaul_parts::Framing<HEAD_LEN>;

impl Config {
    /// Fails if the parameters of the transfer are invalid.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.framing
            .check(PACKETS_MAX)
            .map_err(ConfigError::Packets)?;
        if self.burst == Some(0) {
            return Err(ConfigError::Burst);
        }
        if self.window_max == 0 || self.ranges_max == 0 {
            return Err(ConfigError::Bound);
        }
        if self.memory.rtt > RTT_MAX {
            return Err(ConfigError::Rtt(self.memory.rtt));
        }
        Ok(())
    }
}

/// Reason why a [`Config`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The packets are too long, empty or too many.
    Packets(packet_layout::PacketLayoutError),
    /// The burst is zero.
    Burst,
    /// The flow window or the loss list has no capacity.
    Bound,
    /// The round-trip time exceeds [`RTT_MAX`].
    Rtt(Duration),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(error) => error.fmt(f),
            Self::Burst => write!(f, "a burst must have at least one byte"),
            Self::Bound => write!(
                f,
                "the flow window and the loss list must hold at least one entry"
            ),
            Self::Rtt(rtt) => write!(
                f,
                "a round-trip time of {rtt:?} exceeds the maximum of {RTT_MAX:?}"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Maximum round-trip time.
pub const RTT_MAX: Duration = Duration::from_secs(10);
/// Control period of SABUL: rate control and ACKs happen once per period (section 3.5).
pub const SYN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing_cases::{assert_checks_framing, eleven_packets};

    const CONFIG: Config = Config {
        framing: eleven_packets(),
        mode: Mode::Paper,
        memory: Memory::new(Rate::from_mbps(1), Duration::from_millis(10)),
        rate_max: Rate::UNLIMITED,
        burst: None,
        stream: 0,
        window_max: 100,
        ranges_max: 10,
    };

    #[test]
    fn invalid_config_is_refused() {
        let refused = |config: Config| config.check().unwrap_err();
        assert_eq!(
            refused(Config {
                burst: Some(0),
                ..CONFIG
            }),
            ConfigError::Burst
        );
        assert_eq!(
            refused(Config {
                window_max: 0,
                ..CONFIG
            }),
            ConfigError::Bound
        );
        assert_eq!(
            refused(Config {
                ranges_max: 0,
                ..CONFIG
            }),
            ConfigError::Bound
        );
        let long = Duration::from_secs(11);
        let memory = Memory {
            rtt: long,
            ..CONFIG.memory
        };
        let slow = Config { memory, ..CONFIG };
        assert_eq!(refused(slow), ConfigError::Rtt(long));
    }

    #[test]
    fn path_carries_more_than_a_share_of_it() {
        let mut memory = Memory::measured(Rate::from_mbps(100), Duration::from_millis(20));
        memory.rate = Rate::from_mbps(40);
        assert_eq!(memory.carried(), (Rate::from_mbps(40), false));
        // congestion before the measured rate is reached
        let now = Instant::ZERO + Duration::from_secs(1);
        memory.competition.handle_brake(now, Some(40e6));
        let path = (Duration::from_millis(20), 1500.0);
        memory.competition.judge(now, 40e6, path);
        assert_eq!(memory.carried(), (Rate::from_mbps(100), true));
    }

    #[test]
    fn framing_is_checked() {
        let check = |framing| Config { framing, ..CONFIG }.check();
        assert_checks_framing(CONFIG.framing, check, ConfigError::Packets);
    }
}
