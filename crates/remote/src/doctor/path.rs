//! Checks of the path and of both hosts over a session.
//!
//! `examine` asks the peer for a [`Checkup`], and reports one line for each step: version, clock,
//! UDP, MTU, round-trip time, socket buffers, offload and network interfaces. A step is fine, or a warning with the
//! command that helps; only a failed checkup is an error. Over ssh or a gateway no datagram passes,
//! so only version, clock and round-trip time are examined. It changes nothing on either host.

use lighthaul_base::{Rate, Size};
use lighthaul_io::net::probe::LENGTHS;
use lighthaul_session::checkup::ask::{Checkup, ask};
use lighthaul_session::checkup::message::HostFacts;
use lighthaul_session::offer::SmallBuffer;
use lighthaul_session::session::Session;

use super::interface;
use super::report::Report;
use super::settings::Doctor;

/// Route by which a session reaches the other host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionRoute {
    Direct,
    Gateway,
    Ssh,
}

/// Checks the path of `session` and reports every step. `device_mtu` is the MTU of this host's device.
pub(super) fn examine(
    doctor: &Doctor,
    session: &Session,
    (way, device_mtu): (SessionRoute, Option<u32>),
    report: &mut Report<'_>,
) {
    let checkup = match ask(session, way == SessionRoute::Direct) {
        Ok(checkup) => checkup,
        Err(error) => {
            let advice = "try again; if it fails again, install the same version on both sides";
            report.fail(error.code(), "path", &error.text(), advice);
            return;
        }
    };
    version(&checkup, report);
    clocks(&checkup, report);
    let through = match way {
        SessionRoute::Direct => None,
        SessionRoute::Gateway => Some("a gateway"),
        SessionRoute::Ssh => Some("ssh"),
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
                udp_buffers(side, facts, (need, rate), report);
            } else {
                tcp_buffers(side, facts, need, report);
            }
        }
    }
    offload(&checkup, report);
    for (side, facts) in [("here", &checkup.here), ("there", &checkup.there)] {
        if let Some(facts) = &facts.interface {
            interface::judge(side, facts, report);
        }
    }
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
        let advice = "file times will be wrong: synchronize both clocks, for example with chrony";
        report.warn("clock", &text, advice);
    }
}

/// Checks that datagrams pass in both directions.
fn udp(session: &Session, checkup: &Checkup, report: &mut Report<'_>) -> bool {
    let (host, port) = (session.peer_address().ip(), session.peer_address().port());
    let least = LENGTHS[0] as u32 + checkup.header_len;
    let passes = (checkup.here.datagram_len > 0, checkup.is_reverse_open);
    let text = match passes {
        (true, true) => {
            report.fine("udp", "datagrams pass in both directions");
            return true;
        }
        (true, false) => "datagrams reach the host, but its answers do not arrive",
        (false, true) => "datagrams from the host arrive, but none reaches it",
        (false, false) => "no datagram passes in either direction",
    };
    let way = match passes {
        (true, _) => format!("from {host}:{port} to this host"),
        (false, true) => format!("to {host}:{port}"),
        (false, false) => format!("to {host}:{port}, and replies"),
    };
    let advice =
        format!("for higher rates, allow UDP {way} with packets of at least {least} bytes");
    report.warn("udp", &format!("{text}; TCP takes over"), &advice);
    false
}

fn mtu(checkup: &Checkup, device_mtu: Option<u32>, report: &mut Report<'_>) {
    let packet = |facts: &HostFacts| u32::from(facts.datagram_len) + checkup.header_len;
    let (out, back) = (packet(&checkup.here), packet(&checkup.there));
    let text = if out == back {
        format!("packets of {out} bytes pass")
    } else {
        format!("packets of {out} bytes reach the host, and packets of {back} bytes arrive from it")
    };
    // the longest of those that are tried which this host can send at all
    let lengths = LENGTHS.map(|len| len as u32 + checkup.header_len);
    let longest = |mtu: u32| lengths.into_iter().filter(|len| *len <= mtu).max();
    match device_mtu {
        Some(mtu) if longest(mtu) > Some(out.min(back)) => {
            let text = format!("{text}, but this host's interface has an MTU of {mtu}");
            let advice = format!(
                "a link on the path has a smaller MTU: raise it, or run `ip link set dev DEVICE mtu {}` on both hosts",
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

fn udp_buffers(side: &str, facts: &HostFacts, (need, rate): (u64, Rate), report: &mut Report<'_>) {
    let need = need.clamp(BUFFER_MIN, BUFFER_MAX);
    let granted = facts.receive_bytes.min(facts.send_bytes);
    let text = format!("the kernel {side} allows UDP buffers of {}", Size(granted));
    if granted >= need {
        let small = SmallBuffer::find(facts.receive_bytes, rate).map_or_else(String::new, |small| {
            format!(
                ", which is small for the rate ({small}); if copies lose packets, run `sysctl -w net.core.rmem_max={}`",
                small.advised
            )
        });
        return report.fine("buffers", &format!("{text}{small}"));
    }
    let text = format!("{text}, but {} are needed", Size(need));
    let bytes = need.next_power_of_two();
    let advice = format!("{side}: `sysctl -w net.core.rmem_max={bytes} net.core.wmem_max={bytes}`");
    report.warn("buffers", &text, &advice);
}

fn tcp_buffers(side: &str, facts: &HostFacts, need: u64, report: &mut Report<'_>) {
    let granted = facts.tcp_receive_bytes.min(facts.tcp_send_bytes);
    // half of a receive buffer is the kernel's own, unless tcp_adv_win_scale says otherwise
    let need = need.saturating_mul(2);
    let text = format!("the kernel {side} allows TCP buffers of {}", Size(granted));
    if granted >= need {
        return report.fine("buffers", &text);
    }
    let text = format!("{text}, but {} are needed", Size(need));
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
            "both kernels support batches of datagrams (UDP GSO and GRO)",
        );
    }
    let text = format!(
        "the kernel {} does not support batches of datagrams (UDP GSO and GRO)",
        lacking.join(" and ")
    );
    let advice = "each datagram needs a system call; use Linux 5.0 or newer";
    report.warn("offload", &text, advice);
}

/// Maximum difference of the clocks without a warning.
const CLOCK_SECONDS: f64 = 1.0;
/// Receive buffer for bursts on any path.
const BUFFER_MIN: u64 = 1 << 20;
/// Largest buffer that is requested from the kernel.
const BUFFER_MAX: u64 = 64 << 20;
