//! Which protocol suits a path, from what is known of it before the first byte leaves.

use std::time::Duration;

use lighthaul_base::{Rate, Size};

use crate::protocol::Protocol;

/// What is known of a path and of what is to cross it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// The longest datagram that passes; zero if none does.
    pub datagram_len: usize,
    /// The round-trip time.
    pub rtt: Duration,
    /// The rate that somebody asked for, or that a train arrived at.
    pub rate: Option<Rate>,
    /// Of a million datagrams in those trains, how many did not arrive.
    pub lost_ppm: u32,
    /// What the system lets wait in a socket; packets are lost where it is too little.
    pub buffer_bytes: usize,
    /// In which part of the last seconds somebody waited for a processor of the receiving host, in percent.
    pub waited: u8,
    /// The path is booked and there is a vector, so there is nobody to share it with.
    pub booked: bool,
    /// Others use the path, and are to have their part.
    pub shared: bool,
    /// Bytes to be moved, once all is listed.
    pub bytes: Option<u64>,
}

/// What moves the data, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The protocol.
    pub protocol: Protocol,
    /// A sentence for people.
    pub why: String,
}

/// Chooses; the first reason that holds decides.
pub fn choose(facts: &Facts) -> Choice {
    let (protocol, because) = reason(facts);
    let why = format!("auto: {protocol}, since {because} ({})", facts.seen());
    Choice { protocol, why }
}

/// Whether so little is not worth any preparation.
pub const fn is_little(bytes: u64) -> bool {
    bytes <= LITTLE
}

fn reason(facts: &Facts) -> (Protocol, String) {
    if facts.datagram_len == 0 {
        return (Protocol::Ptcp, "no UDP datagram arrives".into());
    }
    if facts.booked {
        return (Protocol::Vbtp, "the path is booked for this".into());
    }
    if let Some(bytes) = facts.bytes.filter(|bytes| is_little(*bytes)) {
        let size = Size(bytes);
        return (Protocol::Tcp, format!("{size} are soon there anyhow"));
    }
    if facts.shared {
        // where nothing is lost and answers come at once, one stream gets all that is its part
        let near = facts.lost_ppm < FEW_PPM && facts.rtt < NEAR;
        let protocol = if near {
            Protocol::Tcp
        } else {
            Protocol::SabulSwift
        };
        return (protocol, "others are to have their part of the path".into());
    }
    let pause = facts.rate.map_or(0, |rate| rate.bytes_in(PAUSE));
    if (facts.buffer_bytes as u64) < pause.min(BUFFER_BYTES_ENOUGH) {
        let buffer = Size(facts.buffer_bytes as u64);
        let text = format!("the system lets only {buffer} wait in a socket");
        return (Protocol::Ptcp, text);
    }
    if facts.lost_ppm > LOST_PPM_MAX {
        let text = "so much was lost of what came at once that the path may be policed";
        return (Protocol::Ptcp, text.into());
    }
    if facts.waited >= WAITED_ENOUGH {
        let text = format!(
            "the receiving host's processors are wanted by others, who waited {} % of the last seconds",
            facts.waited
        );
        return (Protocol::RbudpPlus, text);
    }
    (Protocol::Rbudp, "datagrams fill a path of one's own".into())
}

impl Facts {
    /// What was measured, in a few words.
    fn seen(&self) -> String {
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

/// So little crosses in a round trip or two, whatever carries it.
const LITTLE: u64 = 256 << 10;
/// Round trips that one stream fills without losses.
const NEAR: Duration = Duration::from_millis(5);
/// A train of chance ends may show so much where nothing is lost.
const FEW_PPM: u32 = 1000;
/// What a receiver may pause for without a loss, and the buffer that is enough at any rate.
const PAUSE: Duration = Duration::from_millis(2);
const BUFFER_BYTES_ENOUGH: u64 = 4 << 20;
/// Others want a host's processors if somebody waits for one for this part of the time; receiving alone makes
/// nobody wait for so long.
const WAITED_ENOUGH: u8 = 50;
/// A path that loses more of a train than this is thought to be policed.
const LOST_PPM_MAX: u32 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        datagram_len: 1472,
        rtt: Duration::from_millis(100),
        rate: Some(Rate::from_mbps(940)),
        lost_ppm: 1000,
        buffer_bytes: 4 << 20,
        waited: 3,
        booked: false,
        shared: false,
        bytes: None,
    };

    /// What makes other facts of these.
    type Change = fn(&mut Facts);

    #[test]
    fn each_reason_has_its_protocol_and_says_so() {
        let table: [(Change, Protocol, &str); 17] = [
            (|_| {}, Protocol::Rbudp, "a path of one's own"),
            (|f| f.datagram_len = 0, Protocol::Ptcp, "no UDP datagram"),
            (|f| f.booked = true, Protocol::Vbtp, "booked"),
            (
                |f| (f.booked, f.waited, f.bytes) = (true, 99, Some(1)),
                Protocol::Vbtp,
                "booked",
            ),
            (
                |f| (f.booked, f.shared) = (true, true),
                Protocol::Vbtp,
                "booked",
            ),
            (
                |f| (f.booked, f.datagram_len) = (true, 0),
                Protocol::Ptcp,
                "no UDP datagram",
            ),
            (|f| f.bytes = Some(1000), Protocol::Tcp, "soon there"),
            (|f| f.bytes = Some(1 << 30), Protocol::Rbudp, "own"),
            (|f| f.shared = true, Protocol::SabulSwift, "others"),
            (
                |f| (f.shared, f.datagram_len) = (true, 0),
                Protocol::Ptcp,
                "no UDP datagram",
            ),
            (
                |f| (f.shared, f.rtt) = (true, Duration::from_millis(1)),
                Protocol::SabulSwift,
                "others",
            ),
            (|f| f.waited = 60, Protocol::RbudpPlus, "60 %"),
            (|f| f.waited = 49, Protocol::Rbudp, "own"),
            (
                |f| (f.waited, f.buffer_bytes) = (60, 100_000),
                Protocol::Ptcp,
                "in a socket",
            ),
            (
                |f| (f.shared, f.lost_ppm, f.rtt) = (true, 0, Duration::from_millis(1)),
                Protocol::Tcp,
                "others",
            ),
            (|f| f.buffer_bytes = 100_000, Protocol::Ptcp, "in a socket"),
            (|f| f.lost_ppm = 400_000, Protocol::Ptcp, "policed"),
        ];
        for (change, protocol, words) in table {
            let mut facts = FACTS;
            change(&mut facts);
            let choice = choose(&facts);
            assert_eq!(choice.protocol, protocol, "{facts:?}");
            assert!(choice.why.contains(words), "{choice:?}");
        }
    }

    #[test]
    fn what_was_measured_is_in_the_sentence() {
        assert_eq!(
            choose(&FACTS).why,
            "auto: rbudp, since datagrams fill a path of one's own (RTT 100.0 ms, 940.000 Mb/s, \
             datagrams of 1472 bytes, 0.10 % lost)"
        );
    }
}
