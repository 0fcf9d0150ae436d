//! Switch of a transfer to another protocol for its next objects, if the user selected none.
//!
//! ```text
//! reports of the receiver, counters of TCP -> facts of a second -> choose() -> same in two seconds: change
//! ```
//!
//! Only protocols that the peer allows ([`Protocol::alternatives`]) replace each other, with the next object. The copy
//! never returns to an earlier protocol, so the protocol does not oscillate.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};

use crate::choose::{Choice, PathFacts, Running, choose};
use crate::protocol::Protocol;

/// Counters of a transfer since its start, and its present limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Bytes of objects that have arrived.
    pub bytes: u64,
    /// Segments that TCP has sent, and the number of them that were retransmitted. Both wrap around.
    pub segments: (u32, u32),
    /// Rate that the transfer may use.
    pub limit: Rate,
}

/// Protocol in use, with the facts for the choice of another.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolSwitch {
    facts: PathFacts,
    protocol: Protocol,
    /// Start of the present second, with the evidence at that time; none before the first evidence.
    begun: Option<(Instant, Evidence)>,
    /// Protocol that the last second called for.
    wanted: Protocol,
}

impl ProtocolSwitch {
    /// Starts with `protocol`, which was chosen by `facts`.
    pub const fn new(protocol: Protocol, facts: PathFacts) -> Self {
        Self {
            // even the last objects of a transfer may be long
            facts: PathFacts {
                bytes: None,
                ..facts
            },
            protocol,
            begun: None,
            wanted: protocol,
        }
    }

    /// Returns the protocol of the next object.
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Takes new evidence. Returns the new protocol and the reason if the course changes.
    pub fn update(&mut self, now: Instant, evidence: Evidence) -> Option<Choice> {
        let (begun, before) = *self.begun.get_or_insert((now, evidence));
        let time = now.since(begun);
        if time < WINDOW.max(self.facts.rtt * WINDOW_RTTS) {
            return None;
        }
        self.begun = Some((now, evidence));
        let sent = evidence.segments.0.wrapping_sub(before.segments.0);
        let resent = evidence.segments.1.wrapping_sub(before.segments.1);
        let resent_ppm = u64::from(resent) * 1_000_000 / u64::from(sent.max(1));
        let choice = choose(&PathFacts {
            rate: self.facts.rate.map(|rate| rate.min(evidence.limit)),
            running: Some(Running {
                protocol: self.protocol,
                carried: Rate::of(evidence.bytes.saturating_sub(before.bytes).max(1), time),
                resent_ppm: resent_ppm.min(1_000_000) as u32,
            }),
            ..self.facts
        });
        let is_lasting = choice.protocol == self.wanted;
        self.wanted = choice.protocol;
        let may_change = self.protocol.alternatives().contains(&choice.protocol);
        if !may_change || !is_lasting {
            return None;
        }
        self.protocol = choice.protocol;
        Some(choice)
    }
}

/// Minimum time in which facts are collected.
const WINDOW: Duration = Duration::from_secs(1);
/// Minimum number of round trips in which facts are collected.
const WINDOW_RTTS: u32 = 5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FACTS: PathFacts = PathFacts {
        datagram_len: 1472,
        rtt: Duration::from_millis(1),
        rate: Some(Rate::from_mbps(800)),
        lost_ppm: 0,
        buffer_bytes: 4 << 20,
        waited: 0,
        booked: false,
        dedicated: false,
        bytes: Some(1),
        running: None,
    };

    /// Transfer whose evidence comes 20 times a second.
    struct Transfer {
        course: ProtocolSwitch,
        now: Instant,
        evidence: Evidence,
        changes: Vec<(Instant, Choice)>,
    }

    impl Transfer {
        fn new(protocol: Protocol, facts: PathFacts) -> Self {
            Self {
                course: ProtocolSwitch::new(protocol, facts),
                now: Instant::ZERO,
                // the counters of TCP wrap around
                evidence: Evidence {
                    bytes: 0,
                    segments: (u32::MAX - 1000, u32::MAX - 1000),
                    limit: Rate::UNLIMITED,
                },
                changes: Vec::new(),
            }
        }

        /// Carries `mbps` for a time, while TCP sends this part of its segments again.
        fn run(&mut self, millis: u64, mbps: u64, resent_ppm: u32) {
            for _ in 0..millis / 50 {
                self.now += Duration::from_millis(50);
                let evidence = &mut self.evidence;
                evidence.bytes += mbps * 1_000_000 / 8 / 20;
                let (sent, resent) = evidence.segments;
                let resent = resent.wrapping_add(resent_ppm / 100);
                evidence.segments = (sent.wrapping_add(10_000), resent);
                let change = self.course.update(self.now, *evidence);
                self.changes.extend(change.map(|choice| (self.now, choice)));
            }
        }

        fn protocols(&self) -> Vec<Protocol> {
            self.changes
                .iter()
                .map(|(_, choice)| choice.protocol)
                .collect()
        }
    }

    #[test]
    fn tcp_with_a_reduced_rate_is_replaced_once() {
        let mut transfer = Transfer::new(Protocol::Tcp, FACTS);
        transfer.run(10_000, 700, 10_000);
        transfer.run(10_000, 100, 100);
        assert_eq!(transfer.protocols(), []);
        transfer.run(3000, 100, 10_000);
        assert_eq!(transfer.protocols(), [Protocol::SabulSwift]);
        assert_eq!(
            transfer.changes[0].1.why,
            "auto: sabul-swift from now on, because TCP carries only 100.000 Mb/s and sends 1.00 % again (RTT 1.0 ms, \
             800.000 Mb/s, datagrams of 1472 bytes, 0.00 % lost)"
        );
        transfer.run(100_000, 700, 0);
        assert_eq!(transfer.protocols().len(), 1);
    }

    #[test]
    fn moment_of_loss_does_not_change_the_protocol() {
        let mut transfer = Transfer::new(Protocol::Tcp, FACTS);
        for _ in 0..20 {
            transfer.run(950, 100, 10_000);
            transfer.run(1050, 700, 0);
        }
        assert_eq!(transfer.protocols(), []);
    }

    #[test]
    fn tcp_that_uses_its_limit_stays() {
        let mut transfer = Transfer::new(Protocol::Tcp, FACTS);
        transfer.evidence.limit = Rate::from_mbps(120);
        transfer.run(10_000, 100, 10_000);
        assert_eq!(transfer.protocols(), []);
    }

    #[test]
    fn protocol_without_alternatives_stays() {
        for protocol in [
            Protocol::Sabul,
            Protocol::SabulSwift,
            Protocol::Ptcp,
            Protocol::Vbtp,
        ] {
            let mut transfer = Transfer::new(protocol, FACTS);
            transfer.run(10_000, 100, 10_000);
            assert_eq!(transfer.protocols(), []);
        }
    }

    proptest! {
        #[test]
        fn any_counters_of_a_peer_change_the_protocol_at_most_once(
            parts in proptest::collection::vec((0_u64..20_000, 0_u64..1000, 0_u32..200_000), 1..20),
            bytes: u64,
        ) {
            let mut transfer = Transfer::new(Protocol::Tcp, FACTS);
            for (millis, mbps, resent_ppm) in parts {
                transfer.run(millis, mbps, resent_ppm);
                let evidence = Evidence { bytes, ..transfer.evidence };
                let changed = transfer.course.update(transfer.now, evidence);
                transfer.changes.extend(changed.map(|choice| (transfer.now, choice)));
            }
            prop_assert!(transfer.changes.len() <= 1);
            let early = transfer.changes.iter().filter(|(at, _)| *at < Instant::ZERO + Duration::from_secs(2));
            prop_assert_eq!(early.count(), 0);
        }
    }
}
