//! Configurations of domains in a chain, `1 - 2 - 3`, or in a ring, which joins its ends. Port `n` leads from domain
//! `n` to the next one and back; programs are at port `100 + n`. Examples and tests share this file.

use std::fmt::Write;
use std::net::SocketAddr;

use lighthaul_io::crypto::identity::Fingerprint;

/// Neighbor in a configuration: number, address, key.
pub(crate) type Pinned = (u32, Option<SocketAddr>, Fingerprint);

/// Domain of a chain or a ring.
pub(crate) struct Member<'a> {
    pub(crate) me: u32,
    /// Number of domains.
    pub(crate) count: u32,
    pub(crate) is_ring: bool,
    pub(crate) listen: SocketAddr,
    /// Capacity of each port.
    pub(crate) capacity: &'a str,
    /// Table of the timers, or nothing.
    pub(crate) timing: &'a str,
    /// Further keys of each neighbor.
    pub(crate) policy: &'a str,
}

impl Member<'_> {
    /// Returns the configuration with these neighbors.
    pub(crate) fn text(&self, neighbors: &[Pinned]) -> String {
        let Self {
            me, count, listen, ..
        } = *self;
        let mut text = format!(
            "domain = {me}\nname = \"domain {me}\"\nlisten = \"{listen}\"\nkey = \"{me}.key\"\nstore = \"{me}.db\"\n{}",
            self.timing
        );
        let links = (1..count).chain(self.is_ring.then_some(count));
        let links = links.map(|port| (port, port, port % count + 1));
        let own = links
            .clone()
            .filter(|(_, from, to)| [from, to].contains(&&me));
        for port in own.map(|(port, _, _)| port).chain([100 + me]) {
            let capacity = self.capacity;
            write!(
                text,
                "[[port]]\nnumber = {port}\nnode = \"core\"\ncapacity = \"{capacity}\"\n"
            )
            .unwrap();
        }
        for (domain, address, key) in neighbors {
            let policy = self.policy;
            write!(
                text,
                "[[neighbor]]\ndomain = {domain}\nname = \"n{domain}\"\nkey = \"{key}\"\n{policy}"
            )
            .unwrap();
            if let Some(address) = address {
                writeln!(text, "address = \"{address}\"").unwrap();
            }
        }
        for (port, from, to) in links {
            write!(
                text,
                "[[domain_link]]\nport = {port}\nfrom = {from}\nto = {to}\nboth = true\n"
            )
            .unwrap();
        }
        text
    }
}
