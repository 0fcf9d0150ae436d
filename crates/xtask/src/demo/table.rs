//! Table of the results.

use std::fmt::Write;

/// Result of one program.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// True if the seconds are extrapolated from a part of the bytes.
    pub(crate) estimated: bool,
    pub(crate) verified: String,
    pub(crate) remark: String,
}

/// Formats the rows, with their share of the payload that a link of `link_bps` can carry.
pub(crate) fn table(rows: &[Row], link_bps: f64) -> String {
    let best_bps = link_bps * PAYLOAD_SHARE;
    let mut text = format!(
        "{:<18}{:>9}{:>15}{:>8}  verified\n",
        "", "seconds", "goodput", "share"
    );
    for row in rows {
        let bps = row.bytes as f64 * 8.0 / row.seconds;
        let seconds = format!("{}{:.1}", if row.estimated { "~" } else { "" }, row.seconds);
        let goodput = format!("{:.0} Mb/s", bps / 1e6);
        let share = format!("{:.0} %", bps * 100.0 / best_bps);
        let _ = writeln!(
            text,
            "{:<18}{seconds:>9}{goodput:>15}{share:>8}  {}",
            row.name, row.verified
        );
    }
    let _ = writeln!(
        text,
        "\nshare: of the {:.0} Mb/s of payload that the link can carry (1448 of 1500 bytes)",
        best_bps / 1e6
    );
    for row in rows {
        let _ = writeln!(text, "{}: {}", row.name, row.remark);
    }
    text
}

/// Part of payload in a full TCP packet with timestamps. An encrypted datagram of Lighthaul carries
/// as much.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_goodput_and_share() {
        let row = Row {
            name: "x".to_owned(),
            bytes: 125_000_000,
            seconds: 2.0,
            estimated: true,
            verified: "no".to_owned(),
            remark: "a remark".to_owned(),
        };
        let text = table(&[row], 1e9);
        assert!(text.contains("~2.0       500 Mb/s    52 %  no"), "{text}");
        assert!(text.ends_with("x: a remark\n"));
    }
}
