//! Path between the gateways that are measured.

use super::route::Route;

/// Path between the gateways.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Name in tables.
    pub(super) name: String,
    pub(super) description: String,
    /// Rate of the gateways' channel.
    pub(super) rate: &'static str,
    /// Round-trip time from edge to edge, in milliseconds.
    pub(super) rtt_ms: u32,
    /// True if the ingress gateway relays directly, without slabs.
    pub(super) streamed: bool,
    /// Location of packet loss, and the loss in percent.
    loss: Option<(&'static str, f64)>,
}

impl Path {
    /// Creates a path of 1 Gb/s between the gateways, with the given loss, and edges with round-trip times of 10 ms.
    pub(super) fn wan(rtt_ms: u32, loss: &str) -> Self {
        Self {
            name: format!("1 Gb/s {rtt_ms} ms {loss}"),
            loss: percent(loss).map(|percent| ("wan", percent)),
            ..Self::long(rtt_ms, [loss, "0"])
        }
    }

    /// Creates a path of 1 Gb/s with the given loss on each edge, in both directions.
    pub(super) fn edges(rtt_ms: u32, loss: &str) -> Self {
        Self {
            name: format!("1 Gb/s {rtt_ms} ms, edges {loss}"),
            loss: percent(loss).map(|percent| ("edges", percent)),
            ..Self::long(rtt_ms, ["0", loss])
        }
    }

    fn long(rtt_ms: u32, [wan, edges]: [&str; 2]) -> Self {
        let lossy = |loss: &str| {
            percent(loss).map_or_else(String::new, |percent| format!("loss = \"{percent}%\"\n"))
        };
        let link = |between: &str, rest: &str| format!("[[link]]\nbetween = [{between}]\n{rest}\n");
        let edge = format!("rtt = \"10ms\"\n{}", lossy(edges));
        let wan = format!("rate = \"1Gb/s\"\nrtt = \"{rtt_ms}ms\"\n{}", lossy(wan));
        let description = [
            "host = [{name=\"c\"}, {name=\"ga\"}, {name=\"gb\"}, {name=\"s\"}]\n".to_owned(),
            "router = [{name=\"r1\"}, {name=\"r2\"}]\n".to_owned(),
            link("\"c\", \"r1\"", &edge),
            link("\"ga\", \"r1\"", ""),
            link("\"gb\", \"r2\"", ""),
            link("\"s\", \"r2\"", &edge),
            link("\"r1\", \"r2\"", &wan),
        ]
        .concat();
        Self {
            name: String::new(),
            description,
            rate: "1Gb/s",
            rtt_ms: rtt_ms + EDGES_MS,
            streamed: false,
            loss: None,
        }
    }

    /// Creates a veth pair, whose hosts run both the programs and their gateways.
    pub(super) fn near() -> Self {
        let description = "host = [{name=\"c\"}, {name=\"s\"}]\n\
                           [[link]]\nbetween = [\"c\", \"s\"]\nkind = \"veth\"\n";
        Self {
            name: "veth".to_owned(),
            description: description.to_owned(),
            rate: "40Gb/s",
            rtt_ms: 0,
            streamed: false,
            loss: None,
        }
    }

    /// Creates a veth pair, on which the ingress gateway relays directly.
    pub(super) fn streamed() -> Self {
        Self {
            name: "veth, streamed".to_owned(),
            streamed: true,
            ..Self::near()
        }
    }

    /// Returns the cell of a measurement in the figure of losses, if the path has loss.
    pub(super) fn place(&self, route: Route) -> Option<(String, f64)> {
        let (name, percent) = self.loss?;
        Some((format!("{name}_{}", route.column()), percent))
    }

    /// Reports whether the path is a veth pair.
    pub(super) fn is_near(&self) -> bool {
        self.rtt_ms == 0
    }
}

/// Parses `0.01%` as a number. Returns `None` for 0.
fn percent(loss: &str) -> Option<f64> {
    loss.strip_suffix('%')?.parse().ok()
}

/// Measurement of the round-trip time that both edges add, in milliseconds.
pub(super) const EDGES_MS: u32 = 20;
