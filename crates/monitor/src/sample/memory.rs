//! Memory of the host, from `/proc/meminfo`.

use serde::{Deserialize, Serialize};

/// Memory at one time, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Memory of the host.
    pub total_bytes: u64,
    /// Memory that programs can get without swapping.
    pub available_bytes: u64,
    /// File data that waits to be written to a disk.
    pub dirty_bytes: u64,
    /// Swap space.
    pub swap_total_bytes: u64,
    /// Unused swap space.
    pub swap_free_bytes: u64,
}

/// Parses `/proc/meminfo`. Returns `None` without the total; other missing values are 0.
pub fn parse(text: &str) -> Option<Memory> {
    let value = |name: &str| {
        let mut lines = text.lines();
        let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let mut words = rest.split_ascii_whitespace();
        let kibibytes: u64 = words.next()?.parse().ok()?;
        Some(kibibytes.saturating_mul(1024))
    };
    Some(Memory {
        total_bytes: value("MemTotal")?,
        available_bytes: value("MemAvailable").unwrap_or(0),
        dirty_bytes: value("Dirty").unwrap_or(0),
        swap_total_bytes: value("SwapTotal").unwrap_or(0),
        swap_free_bytes: value("SwapFree").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_values_are_converted_to_bytes() {
        let text = "MemTotal:        8000 kB\nMemFree: 1 kB\nMemAvailable:    6000 kB\n\
                    Dirty: 12 kB\nSwapTotal: 0 kB\nSwapFree: nothing\n";
        let memory = Memory {
            total_bytes: 8_192_000,
            available_bytes: 6_144_000,
            dirty_bytes: 12_288,
            ..Memory::default()
        };
        assert_eq!(parse(text), Some(memory));
        assert_eq!(parse("MemFree: 1 kB"), None);
        assert_eq!(parse("MemTotalX: 1 kB"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text: String, number: u64) {
            parse(&text);
            parse(&format!("MemTotal: {number} kB"));
        }
    }
}
