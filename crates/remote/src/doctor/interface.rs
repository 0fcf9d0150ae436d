//! Judgment of the network interface of one side: offloads, receive ring, queues, interrupts and NUMA node.
//!
//! Only hardware is judged. Each setting that costs speed is a warning with the command that changes it.

use lighthaul_base::Rate;
use lighthaul_session::checkup::interface::{HardwareFacts, InterfaceFacts};

use super::report::Report;

/// Reports one line about the interface of `side`, or a line for each setting that costs speed.
pub(super) fn judge(side: &str, facts: &InterfaceFacts, report: &mut Report<'_>) {
    let name = &facts.name;
    let Some(hardware) = &facts.hardware else {
        let text = format!("{name} {side} is virtual: it has no hardware to tune");
        return report.fine(CHECK, &text);
    };
    let mut faults = offloads(name, hardware);
    faults.extend(ring(name, hardware));
    faults.extend(queues(name, hardware));
    faults.extend(placement(name, hardware));
    if faults.is_empty() {
        return report.fine(CHECK, &summary(side, name, hardware));
    }
    for Finding { text, advice } in faults {
        let text = format!("{name} {side}: {text}");
        report.warn(CHECK, &text, &format!("{side}: {advice}"));
    }
}

/// Setting that costs speed.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    text: String,
    advice: String,
}

impl Finding {
    fn new(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            advice: advice.into(),
        }
    }
}

/// Returns the description of an interface without faults.
fn summary(side: &str, name: &str, hardware: &HardwareFacts) -> String {
    let mut parts = vec![format!("{name} {side}")];
    parts.extend(rate(hardware).map(|rate| rate.to_string()));
    parts.push(match hardware.queues {
        1 => "1 receive queue".to_owned(),
        queues => format!("{queues} receive queues"),
    });
    let ring = hardware.ring;
    parts.extend(ring.map(|(now, _)| format!("ring of {now} packets")));
    let numa = hardware.numa.as_ref();
    parts.extend(numa.map(|numa| format!("NUMA node {}", numa.node)));
    parts.join(", ")
}

fn offloads(name: &str, hardware: &HardwareFacts) -> Vec<Finding> {
    let all = [
        (
            hardware.coalesces,
            "received packets are not coalesced (GRO is off)",
            "gro",
        ),
        (
            hardware.segments,
            "batches are cut before the driver gets them (GSO is off)",
            "gso",
        ),
        (
            hardware.checksums,
            "the CPU computes checksums of sent packets",
            "tx",
        ),
    ];
    let off = all.into_iter().filter(|(is_on, ..)| *is_on == Some(false));
    off.map(|(_, text, option)| Finding::new(text, format!("`ethtool -K {name} {option} on`")))
        .collect()
}

/// Judges the receive ring by the time in which a fast sender fills it.
fn ring(name: &str, hardware: &HardwareFacts) -> Option<Finding> {
    let (now, max) = hardware.ring?;
    let rate = rate(hardware)?;
    let need = rate.bytes_in(RING_TIME).div_ceil(PACKET_BYTES);
    if now >= max || u64::from(now) >= need {
        return None;
    }
    let advised = u64::from(max).min(need.next_power_of_two());
    Some(Finding::new(
        format!("the receive ring takes {now} packets, less than arrive in 1 ms at {rate}"),
        format!("`ethtool -G {name} rx {advised}`"),
    ))
}

fn queues(name: &str, hardware: &HardwareFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if hardware.queues < 2 {
        return found;
    }
    if hardware.spreads_udp == Some(false) {
        found.push(Finding::new(
            "UDP flows from one host arrive on one queue",
            format!(
                "`ethtool -N {name} rx-flow-hash udp4 sdfn`, and the same with udp6, spreads lanes over the queues"
            ),
        ));
    }
    if hardware.interrupts > 1 && hardware.interrupt_cpus == 1 {
        found.push(Finding::new(
            format!("one CPU handles all {} interrupts", hardware.interrupts),
            "start irqbalance, or write a CPU to /proc/irq/NUMBER/smp_affinity_list of each interrupt",
        ));
    }
    found
}

fn placement(name: &str, hardware: &HardwareFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(numa) = &hardware.numa else {
        return found;
    };
    let node = numa.node;
    if numa.interrupts_elsewhere > 0 {
        found.push(Finding::new(
            format!(
                "CPUs of other NUMA nodes handle {} of {} interrupts",
                numa.interrupts_elsewhere, hardware.interrupts
            ),
            format!(
                "write CPUs of node {node}, of /sys/class/net/{name}/device/local_cpulist, to /proc/irq/NUMBER/smp_affinity_list"
            ),
        ));
    }
    if numa.runs_elsewhere {
        found.push(Finding::new(
            format!("lighthaul may run on CPUs of other NUMA nodes than its node {node}"),
            format!("start lighthaul with `numactl --cpunodebind={node} --membind={node}`"),
        ));
    }
    found
}

/// Returns the rate of the link, or none if it is unknown.
fn rate(hardware: &HardwareFacts) -> Option<Rate> {
    Rate::from_bps(u64::from(hardware.mbps?) * 1_000_000)
}

/// Name of this check.
const CHECK: &str = "nic";
/// Time for which a receive ring should keep packets at the rate of the link.
const RING_TIME: std::time::Duration = std::time::Duration::from_millis(1);
/// Usual size of a packet.
const PACKET_BYTES: u64 = 1500;

#[cfg(test)]
mod tests {
    use lighthaul_session::checkup::interface::NumaPlacement;

    use super::*;

    /// Hardware without a fault.
    fn sound() -> HardwareFacts {
        HardwareFacts {
            mbps: Some(100_000),
            ring: Some((8192, 8192)),
            coalesces: Some(true),
            segments: Some(true),
            checksums: Some(true),
            queues: 16,
            spreads_udp: Some(true),
            interrupts: 17,
            interrupt_cpus: 16,
            numa: Some(NumaPlacement {
                node: 1,
                interrupts_elsewhere: 0,
                runs_elsewhere: false,
            }),
        }
    }

    /// Returns outcome, text and advice of each line about `hardware`.
    fn lines(hardware: Option<HardwareFacts>) -> Vec<(String, String, String)> {
        let facts = InterfaceFacts {
            name: "eth0".to_owned(),
            hardware,
        };
        let mut lines = Vec::new();
        let mut tell = |check: crate::doctor::report::Check<'_>| {
            assert_eq!(check.name, "nic");
            lines.push((
                check.outcome.to_owned(),
                check.text.to_owned(),
                check.advice.to_owned(),
            ));
        };
        judge("there", &facts, &mut Report::new(&mut tell));
        lines
    }

    #[test]
    fn healthy_or_virtual_interface_gets_a_single_line() {
        let line = &lines(Some(sound()))[0];
        assert_eq!(
            line.1,
            "eth0 there, 100.000 Gb/s, 16 receive queues, ring of 8192 packets, NUMA node 1"
        );
        assert_eq!(line.0, "ok");
        let unknown = HardwareFacts {
            queues: 1,
            ..HardwareFacts::default()
        };
        assert_eq!(lines(Some(unknown))[0].1, "eth0 there, 1 receive queue");
        assert_eq!(
            lines(None),
            [(
                "ok".to_owned(),
                "eth0 there is virtual: it has no hardware to tune".to_owned(),
                String::new()
            )]
        );
    }

    #[test]
    fn each_setting_that_costs_speed_is_a_warning_with_its_command() {
        type Change = fn(&mut HardwareFacts);
        let cases: [(Change, &str, &str); 8] = [
            (
                |h| h.coalesces = Some(false),
                "GRO is off",
                "ethtool -K eth0 gro on",
            ),
            (
                |h| h.segments = Some(false),
                "GSO is off",
                "ethtool -K eth0 gso on",
            ),
            (
                |h| h.checksums = Some(false),
                "checksums",
                "ethtool -K eth0 tx on",
            ),
            (
                |h| h.ring = Some((512, 8192)),
                "takes 512 packets, less than arrive in 1 ms at 100.000 Gb/s",
                "`ethtool -G eth0 rx 8192`",
            ),
            (
                |h| h.spreads_udp = Some(false),
                "on one queue",
                "rx-flow-hash udp4 sdfn",
            ),
            (
                |h| h.interrupt_cpus = 1,
                "one CPU handles all 17",
                "start irqbalance",
            ),
            (
                |h| h.numa.as_mut().unwrap().interrupts_elsewhere = 3,
                "handle 3 of 17 interrupts",
                "/sys/class/net/eth0/device/local_cpulist",
            ),
            (
                |h| h.numa.as_mut().unwrap().runs_elsewhere = true,
                "than its node 1",
                "numactl --cpunodebind=1 --membind=1",
            ),
        ];
        for (change, text, advice) in cases {
            let mut hardware = sound();
            change(&mut hardware);
            let lines = lines(Some(hardware));
            assert_eq!(lines.len(), 1, "{lines:?}");
            let (outcome, said, to_do) = &lines[0];
            assert_eq!(outcome, "warn");
            assert!(said.contains(text), "{text:?}: {said}");
            assert!(to_do.contains(advice), "{advice:?}: {to_do}");
            assert!(to_do.starts_with("there: "), "{to_do}");
        }
    }

    #[test]
    fn ring_at_its_limit_or_long_enough_gets_no_warning() {
        let with = |mbps, ring| {
            let hardware = HardwareFacts {
                mbps,
                ring: Some(ring),
                ..sound()
            };
            super::ring("eth0", &hardware)
        };
        assert_eq!(with(Some(100_000), (512, 512)), None);
        assert_eq!(with(None, (64, 4096)), None);
        assert_eq!(with(Some(0), (64, 4096)), None, "a peer may send it");
        // 1 ms at 1 Gb/s are 84 packets of 1500 bytes
        assert_eq!(with(Some(1_000), (84, 4096)), None);
        let advice = with(Some(1_000), (83, 4096)).unwrap().advice;
        assert_eq!(advice, "`ethtool -G eth0 rx 128`");
    }

    #[test]
    fn one_queue_needs_no_hash_and_no_second_cpu() {
        let hardware = HardwareFacts {
            queues: 1,
            spreads_udp: Some(false),
            interrupt_cpus: 1,
            ..sound()
        };
        assert_eq!(lines(Some(hardware))[0].0, "ok");
    }
}
