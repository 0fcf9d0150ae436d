//! Where the gateway is.

use std::net::SocketAddr;
use std::sync::OnceLock;

/// The gateway's address, if the environment names one; looked up once, before the program's `main` if it can be.
pub(crate) fn gateway() -> Option<SocketAddr> {
    static GATEWAY: OnceLock<Option<SocketAddr>> = OnceLock::new();
    *GATEWAY.get_or_init(|| std::env::var(VARIABLE).ok()?.parse().ok())
}

/// Whether a connection to `target` is to go through the gateway.
pub(crate) fn is_captured(target: SocketAddr, gateway: SocketAddr) -> bool {
    let ip = target.ip().to_canonical();
    let is_here = ip.is_loopback() || ip.is_unspecified();
    let is_gateway = (ip, target.port()) == (gateway.ip().to_canonical(), gateway.port());
    !is_here && !is_gateway && !ip.is_multicast()
}

/// `ip:port`, as `lighthaul wrap` sets it.
const VARIABLE: &str = "LIGHTHAUL_WRAP";

/// Has the environment read while the program has a single thread still: the dynamic linker calls what it finds in this
/// section, after libc is ready.
#[used]
#[unsafe(link_section = ".init_array")]
static EARLY: extern "C" fn() = early;

extern "C" fn early() {
    gateway();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leaves_the_host_is_captured() {
        let gateway = "192.0.2.1:1080".parse().unwrap();
        for (target, captured) in [
            ("203.0.113.7:80", true),
            ("[2001:db8::1]:80", true),
            ("[::ffff:203.0.113.7]:80", true),
            ("192.0.2.1:80", true),
            ("192.0.2.1:1080", false),
            ("[::ffff:192.0.2.1]:1080", false),
            ("127.0.0.1:80", false),
            ("127.9.9.9:80", false),
            ("[::1]:80", false),
            ("[::ffff:127.0.0.1]:80", false),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
        ] {
            assert_eq!(
                is_captured(target.parse().unwrap(), gateway),
                captured,
                "{target}"
            );
        }
    }
}
