//! Checks of the path and of both hosts over a session.

use lighthaul_base::{Rate, Size};
use lighthaul_io::net::probe::LENGTHS;
use lighthaul_session::checkup::ask::{Checkup, ask};
use lighthaul_session::checkup::message::HostFacts;
use lighthaul_session::session::Session;

use super::report::Report;
use super::settings::Doctor;

/// Way of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Direct,
    Gateway,
    Ssh,
}

/// Checks the path of `session` and reports every step. `device_mtu` is the MTU of this host's device.
pub(super) fn examine(
    doctor: &Doctor,
    session: &Session,
    (way, device_mtu): (Way, Option<u32>),
    report: &mut Report<'_>,
) {
    let checkup = match ask(session, way == Way::Direct) {
        Ok(checkup) => checkup,
        Err(error) => {
            let advice = "try again; if it fails again, install the same version on both sides";
            report.fail(error.code, "path", &error.text, advice);
            return;
        }
    };
    version(&checkup, report);
    clocks(&checkup, report);
    let through = match way {
        Way::Direct => None,
        Way::Gateway => Some("a gateway"),
        Way::Ssh => Some("ssh"),
    };
    if let Some(through) = through {
        round_trip(&checkup, None, report);
        let text = format!("no datagram passes {through}: TCP carries copies there");
        return report.fine("udp", &text);
    }
    let passes = udp(session, &checkup, report);
    if passes {
        mtu(&checkup, device_mtu, report);
    }
    let rate = doctor.rate.or(checkup.rate);
    round_trip(&checkup, rate, report);
    if let Some(rate) = rate {
        let need = rate.bytes_in(checkup.rtt);
        for (side, facts) in [("here", &checkup.here), ("there", &checkup.there)] {
            if passes {
                udp_buffers(side, facts, need, report);
            } else {
                tcp_buffers(side, facts, need, report);
            }
        }
    }
    offload(&checkup, report);
}

fn version(checkup: &Checkup, report: &mut Report<'_>) {
    let (here, there) = (&checkup.here.version, &checkup.there.version);
    if here == there {
        report.fine("version", &format!("{here} on both sides"));
    } else {
        let text = format!("{here} here and {there} there are compatible");
        report.fine("version", &text);
    }
}

fn clocks(checkup: &Checkup, report: &mut Report<'_>) {
    let seconds = checkup.ahead_nanos as f64 / 1e9;
    let way = if seconds < 0.0 { "behind" } else { "ahead" };
    let text = format!("the clock there is {:.3} s {way}", seconds.abs());
    if seconds.abs() < CLOCK_SECONDS {
        report.fine("clock", &text);
    } else {
        let advice = "times of files will look wrong: let NTP or chrony keep both";
        report.warn("clock", &text, advice);
    }
}

/// Checks that datagrams pass in both directions.
fn udp(session: &Session, checkup: &Checkup, report: &mut Report<'_>) -> bool {
    let port = session.peer_address().port();
    let least = LENGTHS[0] as u32 + checkup.header_len;
    let passes = (checkup.here.datagram_len > 0, checkup.is_reverse_open);
    let text = match passes {
        (true, true) => {
            report.fine("udp", "datagrams pass in both directions");
            return true;
        }
        (true, false) => "datagrams arrive there, but none comes back",
        (false, true) => "datagrams come from there, but none arrives there",
        (false, false) => "no datagram passes in either direction",
    };
    let way = match passes {
        (true, _) => format!("from port {port} there back in here"),
        (false, true) => format!("port {port} through to there"),
        (false, false) => format!("port {port} through to there, and back from it"),
    };
    let advice = format!("for higher rates let UDP {way}, packets of {least} bytes at least");
    report.warn("udp", &format!("{text}; TCP takes over"), &advice);
    false
}

fn mtu(checkup: &Checkup, device_mtu: Option<u32>, report: &mut Report<'_>) {
    let packet = |facts: &HostFacts| u32::from(facts.datagram_len) + checkup.header_len;
    let (out, back) = (packet(&checkup.here), packet(&checkup.there));
    let text = if out == back {
        format!("packets of {out} bytes pass")
    } else {
        format!("packets of {out} bytes pass to there, and of {back} bytes from there")
    };
    // the longest of those that are tried which this host can send at all
    let lengths = LENGTHS.map(|len| len as u32 + checkup.header_len);
    let longest = |mtu: u32| lengths.into_iter().filter(|len| *len <= mtu).max();
    match device_mtu {
        Some(mtu) if longest(mtu) > Some(out.min(back)) => {
            let text = format!("{text}, though this host's device takes {mtu}");
            let advice = format!(
                "a link between is narrower: `ip link set dev DEVICE mtu {}` at both ends, or widen it",
                out.min(back)
            );
            report.warn("mtu", &text, &advice);
        }
        _ => report.fine("mtu", &text),
    }
}

fn round_trip(checkup: &Checkup, rate: Option<Rate>, report: &mut Report<'_>) {
    let ms = checkup.rtt.as_secs_f64() * 1e3;
    let text = match rate {
        Some(rate) => format!(
            "{ms:.1} ms; at {rate} {} are in flight at a time",
            Size(rate.bytes_in(checkup.rtt))
        ),
        None => format!("{ms:.1} ms"),
    };
    report.fine("rtt", &text);
}

fn udp_buffers(side: &str, facts: &HostFacts, need: u64, report: &mut Report<'_>) {
    let need = need.clamp(BUFFER_MIN, BUFFER_MAX);
    let granted = facts.receive_bytes.min(facts.send_bytes);
    let text = format!("the kernel {side} grants {} to UDP", Size(granted));
    if granted >= need {
        return report.fine("buffers", &text);
    }
    let text = format!("{text}, and {} are needed", Size(need));
    let bytes = need.next_power_of_two();
    let advice = format!("{side}: `sysctl -w net.core.rmem_max={bytes} net.core.wmem_max={bytes}`");
    report.warn("buffers", &text, &advice);
}

fn tcp_buffers(side: &str, facts: &HostFacts, need: u64, report: &mut Report<'_>) {
    let granted = facts.tcp_receive_bytes.min(facts.tcp_send_bytes);
    // half of a receive buffer is the kernel's own, unless tcp_adv_win_scale says otherwise
    let need = need.saturating_mul(2);
    let text = format!("the kernel {side} grants {} to TCP", Size(granted));
    if granted >= need {
        return report.fine("buffers", &text);
    }
    let text = format!("{text}, and {} are needed", Size(need));
    let bytes = need.next_power_of_two();
    let advice = format!(
        "{side}: `sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {bytes}\" net.ipv4.tcp_wmem=\"4096 16384 {bytes}\"`"
    );
    report.warn("buffers", &text, &advice);
}

fn offload(checkup: &Checkup, report: &mut Report<'_>) {
    let sides = [("here", &checkup.here), ("there", &checkup.there)];
    let lacking: Vec<&str> = sides
        .into_iter()
        .filter(|(_, facts)| !facts.segments || !facts.coalesces)
        .map(|(side, _)| side)
        .collect();
    if lacking.is_empty() {
        return report.fine(
            "offload",
            "both kernels cut and coalesce batches of datagrams",
        );
    }
    let text = format!(
        "the kernel {} does not cut or coalesce batches of datagrams",
        lacking.join(" and ")
    );
    let advice = "each datagram costs a system call; Linux 5.0 or newer does better";
    report.warn("offload", &text, advice);
}

/// Clocks may be so far apart.
const CLOCK_SECONDS: f64 = 1.0;
/// Receive buffer for bursts on any path.
const BUFFER_MIN: u64 = 1 << 20;
/// Largest buffer that is requested from the kernel.
const BUFFER_MAX: u64 = 64 << 20;
