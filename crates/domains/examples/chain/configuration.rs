//! Configurations of domains in a chain: `1 - 2 - 3`. Port `n` leads from domain `n` to the next one and back; programs
//! are at port `100 + n`. Examples and tests share this file.

use std::fmt::Write;
use std::net::SocketAddr;

use lighthaul_io::crypto::identity::Fingerprint;

/// Neighbor in a configuration: number, address, key.
pub(crate) type Pinned = (u32, Option<SocketAddr>, Fingerprint);

/// Domain of a chain.
pub(crate) struct Member<'a> {
    pub(crate) me: u32,
    /// Number of domains.
    pub(crate) count: u32,
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
        let links = [me - 1, me];
        let links = links.into_iter().filter(|link| (1..count).contains(link));
        for port in links.chain([100 + me]) {
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
        for link in 1..count {
            let next = link + 1;
            write!(
                text,
                "[[domain_link]]\nport = {link}\nfrom = {link}\nto = {next}\nboth = true\n"
            )
            .unwrap();
        }
        text
    }
}
