//! What the links of a lab have seen, for people and for programs.

use std::fmt;

use lighthaul_sim::{Count, Counters as LinkCounters};

/// What a lab has seen so far.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Each direction of each emulated link.
    pub links: Vec<DirectionCounters>,
    /// What went wrong outside the links.
    pub troubles: Troubles,
}

/// What one direction of a link has seen.
#[derive(Clone, Debug)]
pub struct DirectionCounters {
    /// Where it comes from.
    pub source: String,
    /// Where it leads to.
    pub target: String,
    /// What its machine has seen.
    pub seen: LinkCounters,
    /// Packets longer than its MTU, dropped.
    pub too_long: u64,
}

/// Packets that the emulator itself did not carry as it should; all zero in a lab that tells the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Super-segments that the kernel dropped because the emulator did not take them in time.
    pub kernel_dropped: u64,
    /// Packets dropped because too much was in flight to be held in memory.
    pub overrun: u64,
    /// Packets that the receiving kernel refused.
    pub refused: u64,
    /// Packets that are not IPv4 or are for nobody in the lab.
    pub foreign: u64,
    /// Reads that failed.
    pub unreadable: u64,
}

impl Counters {
    /// The direction from `source` to `target`, if there is one.
    pub fn link(&self, source: &str, target: &str) -> Option<&DirectionCounters> {
        self.links
            .iter()
            .find(|link| link.source == source && link.target == target)
    }

    /// All of it as one JSON object.
    pub fn to_json(&self) -> String {
        let links: Vec<String> = self.links.iter().map(DirectionCounters::to_json).collect();
        let Troubles {
            kernel_dropped,
            overrun,
            refused,
            foreign,
            unreadable,
        } = self.troubles;
        format!(
            "{{\"links\":[{}],\"troubles\":{{\"kernel_dropped\":{kernel_dropped},\
             \"overrun\":{overrun},\"refused\":{refused},\"foreign\":{foreign},\
             \"unreadable\":{unreadable}}}}}",
            links.join(",")
        )
    }
}

impl DirectionCounters {
    fn to_json(&self) -> String {
        let LinkCounters {
            offered,
            delivered,
            dropped_queue,
            dropped_loss,
            reordered,
            duplicated,
        } = self.seen;
        let counts = [
            ("offered", offered),
            ("delivered", delivered),
            ("dropped_queue", dropped_queue),
            ("dropped_loss", dropped_loss),
            ("reordered", reordered),
            ("duplicated", duplicated),
        ];
        let mut text = format!(
            "{{\"source\":\"{}\",\"target\":\"{}\"",
            self.source, self.target
        );
        for (name, Count { packets, bytes }) in counts {
            let count = format!(",\"{name}\":{{\"packets\":{packets},\"bytes\":{bytes}}}");
            text.push_str(&count);
        }
        text + &format!(",\"too_long\":{}}}", self.too_long)
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for link in &self.links {
            let seen = &link.seen;
            writeln!(
                f,
                "{} -> {}: {} packets offered, {} delivered ({} bytes), {} lost, {} dropped by the \
                 queue, {} late, {} twice, {} too long",
                link.source,
                link.target,
                seen.offered.packets,
                seen.delivered.packets,
                seen.delivered.bytes,
                seen.dropped_loss.packets,
                seen.dropped_queue.packets,
                seen.reordered.packets,
                seen.duplicated.packets,
                link.too_long,
            )?;
        }
        let Troubles {
            kernel_dropped,
            overrun,
            refused,
            foreign,
            unreadable,
        } = self.troubles;
        if self.troubles != Troubles::default() {
            writeln!(
                f,
                "outside the links: {kernel_dropped} dropped by the kernel, {overrun} too many to \
                 hold, {refused} refused, {foreign} foreign, {unreadable} unreadable"
            )?;
        }
        Ok(())
    }
}
