//! Choice of the protocol for a path, from measurements before and during the transfer.
//!
//! [`choose`] compares [`PathFacts`] in a fixed order; the first reason decides:
//!
//! ```text
//! little data: tcp | no datagrams: ptcp | booked: vbtp | shared: tcp if near, else sabul-swift
//! small buffer: ptcp | busy receiver: rbudp+ | all else: rbudp
//! ```
//!
//! While a transfer runs, the same function compares [`Running`] too.
//!
//! A [`Choice`] has the reason as a sentence with the measurements. Nothing is measured here.

use std::time::Duration;

use lighthaul_base::{Rate, Size};

use crate::protocol::Protocol;

/// Facts of a path, of its hosts and of the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathFacts {
    /// Length of the longest datagram that passes; zero if no datagram passes.
    pub datagram_len: usize,
    /// Round-trip time.
    pub rtt: Duration,
    /// Rate that the user asked for, or that a measured train arrived at.
    pub rate: Option<Rate>,
    /// Lost datagrams of measured trains, in parts per million.
    pub lost_ppm: u32,
    /// Bytes that the kernel queues in a socket. Too little means that bursts are lost.
    pub buffer_bytes: usize,
    /// Percentage of the last seconds in which processes waited for a processor of the receiving
    /// host.
    pub waited: u8,
    /// True if the path is reserved for this transfer.
    pub booked: bool,
    /// True if no other flow uses the path.
    pub dedicated: bool,
    /// Bytes to be moved, if the list of entries is complete.
    pub bytes: Option<u64>,
    /// Facts of the running transfer; none before its start.
    pub running: Option<Running>,
}

/// Facts of a transfer that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Protocol of the next object.
    pub protocol: Protocol,
    /// Rate at which the bytes of the transfer have arrived.
    pub carried: Rate,
    /// Segments that TCP has sent again, in parts per million.
    pub resent_ppm: u32,
}

/// Protocol for the data, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Protocol that moves the data.
    pub protocol: Protocol,
    /// Reason, as a sentence for the user.
    pub why: String,
}

/// Chooses a protocol; the first reason that applies decides.
pub fn choose(facts: &PathFacts) -> Choice {
    let (protocol, because) = reason(facts);
    let is_new = facts
        .running
        .is_some_and(|running| running.protocol != protocol);
    let when = if is_new { " from now on" } else { "" };
    let why = format!(
        "auto: {protocol}{when}, because {because} ({})",
        facts.measurements()
    );
    Choice { protocol, why }
}

/// Returns true if a transfer is too small for measuring the path.
pub const fn is_little(bytes: u64) -> bool {
    bytes <= LITTLE_BYTES
}

/// Returns true if one connection moves `bytes` before further connections could be open.
pub const fn are_few(bytes: u64) -> bool {
    bytes <= FEW_BYTES
}

fn reason(facts: &PathFacts) -> (Protocol, String) {
    if let Some(bytes) = facts
        .bytes
        .filter(|bytes| is_little(*bytes) && !facts.booked)
    {
        let size = Size(bytes);
        return (
            Protocol::Tcp,
            format!("{size} is too little to need another protocol"),
        );
    }
    if facts.datagram_len == 0 {
        return (Protocol::Ptcp, "no UDP datagram arrives".into());
    }
    if facts.booked {
        return (
            Protocol::Vbtp,
            "the path is reserved for this transfer".into(),
        );
    }
    if !facts.dedicated {
        return shared(facts);
    }
    let pause = facts.rate.map_or(0, |rate| rate.bytes_in(RECEIVER_PAUSE));
    if (facts.buffer_bytes as u64) < pause.min(BUFFER_BYTES_ENOUGH) {
        let buffer = Size(facts.buffer_bytes as u64);
        let text = format!("the UDP receive buffer has only {buffer}");
        return (Protocol::Ptcp, text);
    }
    if facts.waited >= BUSY_PERCENT {
        let text = format!(
            "processes of the receiving host waited for a processor for {} % of the last seconds",
            facts.waited
        );
        return (Protocol::RbudpPlus, text);
    }
    (Protocol::Rbudp, "no other flow uses the path".into())
}

/// Returns the protocol of a path that other flows may use, and the reason.
fn shared(facts: &PathFacts) -> (Protocol, String) {
    let others = "other flows may use the path".to_owned();
    if let Some(running) = facts.running {
        let slow = facts
            .rate
            .is_some_and(|rate| running.carried < rate.scaled(1, 2));
        if running.protocol != Protocol::Tcp || !slow || running.resent_ppm < FEW_PPM {
            return (running.protocol, others);
        }
        let (carried, percent) = (running.carried, f64::from(running.resent_ppm) / 1e4);
        let text = format!("TCP carries only {carried} and sends {percent:.2} % again");
        return (Protocol::SabulSwift, text);
    }
    // where nothing is lost and answers come at once, one stream gets its whole share
    let near = facts.lost_ppm < FEW_PPM && facts.rtt < NEAR_RTT;
    let protocol = if near {
        Protocol::Tcp
    } else {
        Protocol::SabulSwift
    };
    (protocol, others)
}

impl PathFacts {
    /// Returns the measurements as text.
    fn measurements(&self) -> String {
        let rtt = self.rtt.as_secs_f64() * 1e3;
        let rate = self
            .rate
            .filter(|rate| *rate != Rate::UNLIMITED)
            .map_or_else(String::new, |rate| format!(", {rate}"));
        let datagrams = match self.datagram_len {
            0 => String::new(),
            len => {
                let lost = f64::from(self.lost_ppm) / 1e4;
                format!(", datagrams of {len} bytes, {lost:.2} % lost")
            }
        };
        format!("RTT {rtt:.1} ms{rate}{datagrams}")
    }
}

/// Bytes that any protocol moves in a round trip or two.
const LITTLE_BYTES: u64 = 256 << 10;
/// Bytes that one TCP connection moves while it starts.
const FEW_BYTES: u64 = 4 << 20;
/// Round-trip time up to which one stream without losses fills the path.
const NEAR_RTT: Duration = Duration::from_millis(5);
/// Loss that a measured train may show by chance on a path without loss, in parts per million.
const FEW_PPM: u32 = 1000;
/// Pause of the receiver that its buffer must cover.
const RECEIVER_PAUSE: Duration = Duration::from_millis(2);
/// Size in bytes of a receive buffer that suffices at any rate.
const BUFFER_BYTES_ENOUGH: u64 = 4 << 20;
/// Percentage of time that processes wait for a processor on a busy host. Receiving alone causes
/// less waiting.
const BUSY_PERCENT: u8 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: PathFacts = PathFacts {
        datagram_len: 1472,
        rtt: Duration::from_millis(100),
        rate: Some(Rate::from_mbps(940)),
        lost_ppm: 1000,
        buffer_bytes: 4 << 20,
        waited: 3,
        booked: false,
        dedicated: true,
        bytes: None,
        running: None,
    };

    /// Change of the facts in one case.
    type Change = fn(&mut PathFacts);

    fn assert_chosen(table: &[(Change, Protocol, &str)]) {
        for (change, protocol, words) in table {
            let mut facts = FACTS;
            change(&mut facts);
            let choice = choose(&facts);
            assert_eq!(choice.protocol, *protocol, "{facts:?}");
            assert!(choice.why.contains(words), "{choice:?}");
        }
    }

    #[test]
    fn each_reason_selects_its_protocol() {
        let blocked = "no UDP datagram";
        let little = "too little to need another";
        assert_chosen(&[
            (|_| {}, Protocol::Rbudp, "no other flow"),
            (|f| f.datagram_len = 0, Protocol::Ptcp, blocked),
            (|f| f.booked = true, Protocol::Vbtp, "reserved"),
            (
                |f| (f.booked, f.waited, f.bytes) = (true, 99, Some(1)),
                Protocol::Vbtp,
                "reserved",
            ),
            (
                |f| (f.booked, f.datagram_len) = (true, 0),
                Protocol::Ptcp,
                blocked,
            ),
            (|f| f.bytes = Some(1000), Protocol::Tcp, little),
            (
                |f| (f.bytes, f.datagram_len) = (Some(1000), 0),
                Protocol::Tcp,
                little,
            ),
            (|f| f.bytes = Some(1 << 30), Protocol::Rbudp, "no other"),
            (|f| f.waited = 60, Protocol::RbudpPlus, "60 %"),
            (|f| f.waited = 49, Protocol::Rbudp, "no other flow"),
            (
                |f| (f.waited, f.buffer_bytes) = (60, 100_000),
                Protocol::Ptcp,
                "receive buffer",
            ),
            (
                |f| f.buffer_bytes = 100_000,
                Protocol::Ptcp,
                "receive buffer",
            ),
        ]);
    }

    #[test]
    fn protocols_yield_unless_the_path_is_dedicated() {
        const NEAR: Duration = Duration::from_millis(1);
        let others = "may use the path";
        assert_chosen(&[
            (|f| f.dedicated = false, Protocol::SabulSwift, others),
            (
                |f| (f.dedicated, f.rtt) = (false, NEAR),
                Protocol::SabulSwift,
                others,
            ),
            (
                |f| (f.dedicated, f.lost_ppm, f.rtt) = (false, 0, NEAR),
                Protocol::Tcp,
                others,
            ),
            (
                |f| (f.dedicated, f.waited, f.buffer_bytes) = (false, 99, 1),
                Protocol::SabulSwift,
                others,
            ),
            (
                |f| (f.dedicated, f.datagram_len) = (false, 0),
                Protocol::Ptcp,
                "no UDP datagram",
            ),
            (
                |f| (f.dedicated, f.booked) = (false, true),
                Protocol::Vbtp,
                "reserved",
            ),
        ]);
    }

    #[test]
    fn reason_states_the_measurements() {
        assert_eq!(
            choose(&FACTS).why,
            "auto: rbudp, because no other flow uses the path (RTT 100.0 ms, 940.000 Mb/s, \
             datagrams of 1472 bytes, 0.10 % lost)"
        );
    }
}
