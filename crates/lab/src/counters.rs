//! Counters of a lab's links, as text and as JSON.

use std::fmt;

use lighthaul_sim::{Count, Counters as LinkCounters};

/// Counters of a lab.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Counters of each direction of each emulated link.
    pub links: Vec<DirectionCounters>,
    /// Packets lost outside the links.
    pub emulator: EmulatorCounters,
}

/// Counters of one direction of a link.
#[derive(Clone, Debug)]
pub struct DirectionCounters {
    /// Name of the node where the direction starts.
    pub source: String,
    /// Name of the node where the direction ends.
    pub target: String,
    /// Counters of the link's machine.
    pub seen: LinkCounters,
    /// Packets dropped because they exceed the MTU.
    pub too_long: u64,
}

/// Packets that the emulator lost itself. All are zero in an accurate lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulatorCounters {
    /// Super-segments that the kernel dropped because the emulator was late.
    pub kernel_dropped: u64,
    /// Packets dropped because the emulator's memory was full.
    pub overrun: u64,
    /// Packets that the receiving kernel refused.
    pub refused: u64,
    /// Packets that are not IPv4, or whose address is not in the lab.
    pub foreign: u64,
    /// Failed reads.
    pub unreadable: u64,
}

impl Counters {
    /// Returns the direction from `source` to `target`, or `None` if it is not emulated.
    pub fn link(&self, source: &str, target: &str) -> Option<&DirectionCounters> {
        self.links
            .iter()
            .find(|link| link.source == source && link.target == target)
    }

    /// Returns all counters as one JSON object.
    pub fn to_json(&self) -> String {
        let links: Vec<String> = self.links.iter().map(DirectionCounters::to_json).collect();
        let emulator = self.emulator.to_json();
        format!(
            "{{\"links\":[{}],\"emulator\":{emulator}}}",
            links.join(",")
        )
    }
}

impl EmulatorCounters {
    fn to_json(self) -> String {
        let counts = [
            ("kernel_dropped", self.kernel_dropped),
            ("overrun", self.overrun),
            ("refused", self.refused),
            ("foreign", self.foreign),
            ("unreadable", self.unreadable),
        ];
        let fields = counts.map(|(name, count)| format!("\"{name}\":{count}"));
        format!("{{{}}}", fields.join(","))
    }
}

impl fmt::Display for EmulatorCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kernel_dropped,
            overrun,
            refused,
            foreign,
            unreadable,
        } = self;
        write!(
            f,
            "outside the links: {kernel_dropped} dropped by the kernel, {overrun} too many to \
             hold, {refused} refused, {foreign} foreign, {unreadable} unreadable"
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
        if self.emulator != EmulatorCounters::default() {
            writeln!(f, "{}", self.emulator)?;
        }
        Ok(())
    }
}
