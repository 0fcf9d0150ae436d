//! Routing: for each pair of hosts, the path with the least delay through routers.

use std::time::Duration;

use crate::description::{Description, LinkKind};
use crate::error::{Error, Result};

/// Directions in order. A direction is twice its link's index, plus one for the way back.
pub(crate) type Path = Vec<usize>;

/// Computes the paths between all hosts. `None` for hosts that are only linked by a veth pair.
/// Fails if two hosts are not connected.
pub(crate) fn paths(description: &Description) -> Result<Vec<Vec<Option<Path>>>> {
    let mut all = Vec::new();
    for source in 0..description.host_count {
        let mut from_here = tree(description, source);
        from_here.truncate(description.host_count);
        for (target, path) in from_here.iter().enumerate() {
            if target != source && path.is_none() && !joined_by_veth(description, source, target) {
                let [source, target] = [source, target].map(|h| &description.names[h]);
                return Err(Error::Misuse(format!(
                    "no path from {source} to {target}: add links or routers (hosts do not forward packets)"
                )));
            }
        }
        all.push(from_here);
    }
    Ok(all)
}

/// Reports whether a veth pair links the hosts `one` and `other`.
pub(crate) fn joined_by_veth(description: &Description, one: usize, other: usize) -> bool {
    description.links.iter().any(|link| {
        matches!(link.kind, LinkKind::Veth { .. })
            && (link.between == [one, other] || link.between == [other, one])
    })
}

/// Computes the best path from `source` to every node (Dijkstra's algorithm).
fn tree(description: &Description, source: usize) -> Vec<Option<Path>> {
    let count = description.names.len();
    let mut best: Vec<Option<(Duration, Path)>> = vec![None; count];
    let mut is_settled = vec![false; count];
    best[source] = Some((Duration::ZERO, Path::new()));
    loop {
        let open = (0..count).filter(|&place| !is_settled[place]);
        let reached = open.filter_map(|p| best[p].as_ref().map(|(d, path)| (*d, path.len(), p)));
        let Some((distance, hops, place)) = reached.min() else {
            break;
        };
        is_settled[place] = true;
        if place != source && place < description.host_count {
            continue;
        }
        for (number, link) in description.links.iter().enumerate() {
            let LinkKind::Wan(directions) = &link.kind else {
                continue;
            };
            for (way, direction) in directions.iter().enumerate() {
                if link.between[way] != place {
                    continue;
                }
                let next = link.between[1 - way];
                let total = distance + direction.delay;
                let is_better = best[next]
                    .as_ref()
                    .is_none_or(|(d, p)| (total, hops + 1) < (*d, p.len()));
                if is_better && let Some((_, path)) = &best[place] {
                    let mut path = path.clone();
                    path.push(2 * number + way);
                    best[next] = Some((total, path));
                }
            }
        }
    }
    best[source] = None;
    best.into_iter()
        .map(|found| found.map(|(_, path)| path))
        .collect()
}
