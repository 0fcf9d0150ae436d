//! Domains and the links between them as a tree, from this domain on.
//!
//! ```text
//! 64500 campus
//! ├─ 12 ─ 64501 backbone  up
//! │       └─ 13 ─ 64502
//! └─ 14 ─ 64503 west      down: the connection with neighbor 64503 failed: ...
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_domains::control::{NeighborView, StatusView};

/// Returns the drawing of a domain, its neighbors and all published links.
pub fn draw(status: &StatusView) -> Vec<String> {
    let neighbors = status.neighbors.iter().map(|one| (one.domain, one));
    let mut tree = Tree {
        neighbors: neighbors.collect(),
        children: children(status),
        lines: Vec::new(),
    };
    let (domain, name) = (status.domain, &status.name);
    let (key, epoch) = (&status.key, status.epoch);
    tree.lines
        .push(format!("{domain} {name}  key {key}, start {epoch}"));
    tree.add(domain, "");
    let lines = tree
        .lines
        .iter()
        .map(|line| escape(line, LINE_MAX).into_owned());
    lines.collect()
}

/// Links of each domain to the domains below it: port, domain, and true if the domain is drawn elsewhere.
type Children = BTreeMap<u32, Vec<(Option<u32>, u32, bool)>>;

struct Tree<'a> {
    neighbors: BTreeMap<u32, &'a NeighborView>,
    children: Children,
    lines: Vec<String>,
}

/// Returns the tree of the shortest paths from this domain. Each link is in it once.
fn children(status: &StatusView) -> Children {
    let mut links: BTreeSet<(u32, u32, u32)> = BTreeSet::new();
    for link in &status.links {
        links.insert((link.from.min(link.to), link.from.max(link.to), link.port));
    }
    let mut all = Children::new();
    let mut seen = BTreeSet::from([status.domain]);
    let mut queue = VecDeque::from([status.domain]);
    while let Some(domain) = queue.pop_front() {
        let own: Vec<_> = links
            .iter()
            .copied()
            .filter(|(a, b, _)| [*a, *b].contains(&domain))
            .collect();
        for (a, b, port) in own {
            links.remove(&(a, b, port));
            let other = if a == domain { b } else { a };
            let is_new = seen.insert(other);
            if is_new {
                queue.push_back(other);
            }
            all.entry(domain)
                .or_default()
                .push((Some(port), other, !is_new));
        }
    }
    let without = status
        .neighbors
        .iter()
        .filter(|one| !seen.contains(&one.domain));
    let without: Vec<_> = without.map(|one| (None, one.domain, false)).collect();
    all.entry(status.domain).or_default().extend(without);
    all
}

impl Tree<'_> {
    /// Adds the domains below `domain`. `indent` is the start of its lines.
    fn add(&mut self, domain: u32, indent: &str) {
        let children = self.children.remove(&domain).unwrap_or_default();
        let count = children.len();
        for (nth, (port, other, is_elsewhere)) in children.into_iter().enumerate() {
            let is_last = nth + 1 == count;
            let port = port.map_or_else(|| "no link".to_owned(), |port| port.to_string());
            let branch = if is_last { '└' } else { '├' };
            let about = if is_elsewhere {
                format!("{other} (drawn elsewhere)")
            } else {
                self.about(other)
            };
            self.lines
                .push(format!("{indent}{branch}─ {port} ─ {about}"));
            if !is_elsewhere {
                let bar = if is_last { ' ' } else { '│' };
                let gap = " ".repeat(port.chars().count() + 4);
                self.add(other, &format!("{indent}{bar} {gap}"));
            }
        }
    }

    /// Returns the number of a domain, and the state of the link if it is a neighbor.
    fn about(&self, domain: u32) -> String {
        let Some(neighbor) = self.neighbors.get(&domain) else {
            return domain.to_string();
        };
        let name = &neighbor.name;
        let state = match &neighbor.fault {
            _ if neighbor.connected => format!("up{}", clock(neighbor)),
            Some(why) => format!("down: {why}"),
            None => "down".to_owned(),
        };
        format!("{domain} {name}  {state}")
    }
}

/// Returns the difference of the clock of a neighbor, unless it is short.
fn clock(neighbor: &NeighborView) -> String {
    let offset = neighbor.clock_offset_ns.unwrap_or(0);
    let secs = offset.unsigned_abs() as f64 / 1e9;
    match offset {
        _ if secs < OFFSET_SHOWN_SECS => String::new(),
        1.. => format!(", its clock is {secs:.1} s ahead"),
        _ => format!(", its clock is {secs:.1} s behind"),
    }
}

/// Shortest difference that is shown: a message may take almost as long.
const OFFSET_SHOWN_SECS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use lighthaul_domains::control::LinkView;

    use super::*;

    #[test]
    fn tree_has_every_domain_and_link_once() {
        let neighbor = |domain: u32, connected: bool| NeighborView {
            domain,
            name: format!("n{domain}"),
            connected,
            connections: 1,
            sent: 0,
            received: 0,
            dropped: 0,
            clock_offset_ns: (domain == 2).then_some(-2_340_000_000),
            fault: (domain == 3).then(|| "the connection failed".to_owned()),
        };
        let link = |port: u32, from: u32, to: u32| LinkView {
            port,
            from,
            to,
            cost: 1,
        };
        let status = StatusView {
            domain: 1,
            name: "campus".to_owned(),
            key: "sha256:00".to_owned(),
            epoch: 2,
            neighbors: vec![neighbor(2, true), neighbor(3, false), neighbor(9, false)],
            links: vec![
                link(12, 1, 2),
                link(12, 2, 1),
                link(13, 1, 3),
                link(23, 2, 3),
                link(24, 2, 4),
            ],
            endpoints: BTreeMap::new(),
            paths: Vec::new(),
            requests: 0,
            ignored: 0,
        };
        let expected = [
            "1 campus  key sha256:00, start 2",
            "├─ 12 ─ 2 n2  up, its clock is 2.3 s behind",
            "│       ├─ 23 ─ 3 (drawn elsewhere)",
            "│       └─ 24 ─ 4",
            "├─ 13 ─ 3 n3  down: the connection failed",
            "└─ no link ─ 9 n9  down",
        ];
        assert_eq!(draw(&status), expected);
    }
}
