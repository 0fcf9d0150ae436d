//! List of all programs.

use super::bucket;
use super::gridftp::GridFtp;
use super::iperf3::Iperf3;
use super::lighthaul::Lighthaul;
use super::peer::Peer;
use super::probe::Probe;
use super::quinn::Quinn;
use super::rsync::Rsync;
use super::srt::Srt;
use super::ssh::{LIGHTHAUL, LIGHTHAUL_PLAIN, RCLONE, RSYNC, SCP};
use super::udt::Udt;
use super::xrdcp::Xrdcp;

/// Returns all programs, in the order of the table.
pub(crate) fn all() -> Vec<Box<dyn Peer>> {
    const DEDICATED: &[&str] = &["--dedicated", "--protocol", "rbudp"];
    const TCP: &[&str] = &["--protocol", "tcp"];
    const UNVERIFIED: &[&str] = &["--dedicated", "--protocol", "rbudp", "--verify", "none"];
    let copies = [
        ("lighthaul", false, None, &[][..]),
        ("lighthaul-plain", true, None, &[]),
        ("lighthaul-rbudp", false, Some("rbudp"), &[]),
        ("lighthaul-rbudp+", false, Some("rbudp+"), &[]),
        ("copy-dedicated", false, None, DEDICATED),
        ("copy-dedicated-plain", true, None, DEDICATED),
        ("copy-tcp", false, None, TCP),
        ("copy-tcp-plain", true, None, TCP),
        ("copy-unverified", false, None, UNVERIFIED),
        ("copy-unverified-plain", true, None, UNVERIFIED),
    ];
    let copies = copies.map(|(name, plain, protocol, options)| {
        Box::new(Lighthaul {
            name,
            plain,
            protocol,
            options,
        }) as Box<dyn Peer>
    });
    let mut all = Vec::from(copies);
    let probes = [
        ("lighthaul-memory", "place"),
        ("lighthaul-memory-scatter", "scatter"),
        ("lighthaul-memory-sealed", "sealed"),
        ("lighthaul-memory-sealed-scatter", "sealed-scatter"),
        ("lighthaul-memory-rbudp+", "plus"),
        ("lighthaul-memory-sabul", "sabul"),
        ("lighthaul-memory-sabul-swift", "sabul-swift"),
        ("lighthaul-memory-vbtp", "vbtp"),
        ("lighthaul-memory-tcp", "tcp"),
        ("lighthaul-memory-ptcp", "ptcp"),
        ("raw-udp", "network"),
        ("raw-udp-copy", "copy"),
    ];
    all.extend(probes.map(|(name, what)| Box::new(Probe { name, what }) as Box<dyn Peer>));
    let iperfs = [
        ("iperf3-cubic-1", "cubic", 1),
        ("iperf3-cubic-8", "cubic", 8),
        ("iperf3-bbr-1", "bbr", 1),
        ("iperf3-bbr-8", "bbr", 8),
    ];
    all.extend(iperfs.map(|(name, control, streams)| {
        Box::new(Iperf3 {
            name,
            control,
            streams,
        }) as Box<dyn Peer>
    }));
    all.push(Box::new(Rsync));
    let over_ssh = [SCP, RCLONE, RSYNC, LIGHTHAUL, LIGHTHAUL_PLAIN];
    all.extend(over_ssh.map(|peer| Box::new(peer) as Box<dyn Peer>));
    all.push(Box::new(Xrdcp));
    all.push(Box::new(GridFtp {
        name: "gridftp-1",
        streams: 1,
    }));
    all.push(Box::new(GridFtp {
        name: "gridftp-8",
        streams: 8,
    }));
    all.push(Box::new(Udt));
    all.push(Box::new(Srt));
    all.push(Box::new(Quinn));
    all.extend(bucket::all().map(|peer| Box::new(peer) as Box<dyn Peer>));
    all
}
