//! Calendar of a link in a terminal.
//!
//! [`draw`] returns lines of text; [`columns`] is the number of columns for a width:
//!
//! ```text
//!          10 Gb/s │███▃▃▃███    free capacity: the lowest in each column
//!           free 0 └┬────┬────
//!            UTC    06:00
//!   alice 7   5 Gb/s │   ███      one line for each reservation, shaded by its rate
//! ```
//!
//! Names are escaped, because they come from a server. At most 20 reservations are shown, and the
//! others are counted.

use std::collections::BTreeMap;

use lighthaul_base::counted;
use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_booking_client::json::{Allocation, CalendarView, Timestamp};

use crate::axis::Axis;
use crate::label::rate;

/// Returns the number of columns that fit beside the margins.
pub const fn columns(width: usize) -> usize {
    let columns = width.saturating_sub(MARGIN + 2);
    if columns < 20 { 20 } else { columns }
}

/// Returns the lines of the chart.
pub fn draw(calendar: &CalendarView, axis: &Axis) -> Vec<String> {
    let mut lines = vec![format!(
        "{}  {}  from {} till {}",
        escape(&calendar.link, LINE_MAX),
        rate(calendar.capacity_bps),
        axis.zone().shown(axis.from()),
        axis.zone().shown(axis.till())
    )];
    lines.extend(free(calendar, axis));
    lines.extend(scale(axis));
    lines.extend(allocations(calendar, axis));
    lines.push(String::new());
    lines
}

/// Returns the capacity that is free during the whole of each column.
fn free(calendar: &CalendarView, axis: &Axis) -> Vec<String> {
    let heights: Vec<usize> = (0..axis.columns())
        .map(|column| height(calendar, axis, column))
        .collect();
    let rows = (0..ROWS).rev().map(|row| {
        let block = |height: &usize| BLOCKS[height.saturating_sub(row * 8).min(8)];
        let blocks: String = heights.iter().map(block).collect();
        let label = match row {
            _ if row + 1 == ROWS => rate(calendar.capacity_bps),
            _ if (row + 1) * 2 == ROWS => rate(calendar.capacity_bps / 2),
            _ => String::new(),
        };
        format!("{label:>MARGIN$} │{blocks}")
    });
    rows.collect()
}

/// Returns the height of a column in eighths of a row. It is zero only if nothing is free, and full only if
/// everything is.
fn height(calendar: &CalendarView, axis: &Axis, column: usize) -> usize {
    let (from, till) = (axis.begins(column), axis.begins(column + 1));
    let within = calendar
        .free
        .iter()
        .filter(|free| free.from < till && from < free.till);
    let least = within.map(|free| free.bps).min().unwrap_or(0);
    let capacity = u128::from(calendar.capacity_bps.max(1));
    let height = usize::try_from(u128::from(least) * (ROWS as u128 * 8) / capacity).unwrap_or(0);
    height.max(usize::from(least > 0))
}

/// Returns the time axis, with its ticks.
fn scale(axis: &Axis) -> [String; 2] {
    let mut line: Vec<char> = vec!['─'; axis.columns()];
    let mut names = vec![' '; axis.columns()];
    for (at, name) in axis.ticks(axis.columns() / TICK_WIDTH) {
        let column = axis.column(at);
        // a label that does not fit is omitted, and its tick, too
        if column + name.len() < axis.columns() {
            line[column] = '┬';
            for (place, letter) in names[column..].iter_mut().zip(name.chars()) {
                *place = letter;
            }
        }
    }
    let line: String = line.into_iter().collect();
    let names: String = names.into_iter().collect();
    [
        format!("{:>MARGIN$} └{line}", "free 0"),
        format!("{:>MARGIN$}  {}", axis.zone_name(), names.trim_end()),
    ]
}

/// Returns one line for each reservation.
fn allocations(calendar: &CalendarView, axis: &Axis) -> Vec<String> {
    let mut by_id: BTreeMap<u64, Vec<&Allocation>> = BTreeMap::new();
    for allocation in &calendar.allocations {
        by_id.entry(allocation.id).or_default().push(allocation);
    }
    let more = by_id.len().saturating_sub(LINES_MAX);
    let mut lines: Vec<String> = by_id
        .iter()
        .take(LINES_MAX)
        .map(|(id, parts)| line(*id, parts, axis))
        .collect();
    if more > 0 {
        let more = counted(more as u64, "more reservation", "more reservations");
        lines.push(format!("{:MARGIN$}  and {more}", ""));
    }
    lines
}

/// Returns the bar of one reservation. A darker block means a larger part of its maximum rate.
fn line(id: u64, parts: &[&Allocation], axis: &Axis) -> String {
    let most = parts.iter().map(|part| part.bps).max().unwrap_or(0).max(1);
    let shade = |column| {
        let (from, till) = (axis.begins(column), axis.begins(column + 1));
        let within = parts
            .iter()
            .filter(|part| part.from < till && from < part.till);
        let bps = within.map(|part| part.bps).max().unwrap_or(0);
        // three shades or blank, by thirds of the maximum rate
        let third = u128::from(bps) * 3;
        SHADES[usize::try_from(third.div_ceil(u128::from(most)))
            .unwrap_or(3)
            .min(3)]
    };
    let bar: String = (0..axis.columns()).map(shade).collect();
    let owner = parts
        .iter()
        .find_map(|part| part.owner.as_deref())
        .unwrap_or("others");
    let owner: String = escape(owner, LINE_MAX).chars().take(OWNER_WIDTH).collect();
    let begins = parts
        .iter()
        .map(|part| part.from)
        .min()
        .unwrap_or(Timestamp(0));
    let note = if begins < axis.from() { '┤' } else { '│' };
    format!(
        "{:>MARGIN$} {note}{bar}",
        format!("{owner} {id} {:>9}", rate(most))
    )
}

/// Width of the labels left of the chart, in columns.
const MARGIN: usize = 26;
const OWNER_WIDTH: usize = 9;
const ROWS: usize = 8;
const LINES_MAX: usize = 20;
const TICK_WIDTH: usize = 10;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const SHADES: [char; 4] = [' ', '░', '▒', '█'];

#[cfg(test)]
mod tests {
    use lighthaul_booking_client::json::Free;
    use lighthaul_booking_client::zone::Zone;

    use super::*;

    fn free(from: u64, till: u64, bps: u64) -> Free {
        let (from, till) = (Timestamp(from), Timestamp(till));
        Free { from, till, bps }
    }

    fn calendar() -> CalendarView {
        let allocation = |id: u64, owner: Option<&str>, from, till, bps| Allocation {
            id,
            owner: owner.map(str::to_owned),
            from: Timestamp(from),
            till: Timestamp(till),
            bps,
        };
        CalendarView {
            link: "a-b\u{1b}[2J".to_owned(),
            capacity_bps: 1_000_000_000,
            free: vec![
                free(0, 500, 1_000_000_000),
                free(500, 750, 0),
                free(750, 1000, 1),
            ],
            allocations: vec![
                allocation(7, Some("ada"), 500, 750, 900_000_000),
                allocation(7, Some("ada"), 750, 1000, 300_000_000),
                allocation(8, None, 500, 1000, 100_000_000),
            ],
        }
    }

    #[test]
    fn calendar_shows_free_and_booked_capacity() {
        let axis = Axis::new((Timestamp(0), Timestamp(1000)), 20, Zone::UTC);
        let lines = draw(&calendar(), &axis);
        let bars: Vec<&str> = lines[1..9]
            .iter()
            .filter_map(|line| line.split('│').nth(1))
            .collect();
        assert_eq!(bars[0], format!("{}{}", "█".repeat(10), " ".repeat(10)));
        // a bit a second is not nothing
        assert_eq!(
            bars[7],
            format!("{}{}{}", "█".repeat(10), " ".repeat(5), "▁".repeat(5))
        );
        let ada = lines.iter().find(|line| line.contains("ada 7")).unwrap();
        assert!(
            ada.ends_with(&format!("│{}█████░░░░░", " ".repeat(10))),
            "{ada}"
        );
        assert!(
            lines.iter().any(|line| line.contains("others 8  100 Mb/s")),
            "{lines:#?}"
        );
        assert!(!lines.concat().contains('\u{1b}'));
    }

    #[test]
    fn time_axis_names_its_zone() {
        let day = (Timestamp(0), Timestamp(86_400_000_000_000));
        for (zone, from, name) in [
            (Zone::UTC, "from 1970-01-01 00:00:00Z till", "UTC  00:00"),
            (
                Zone::new(|_| 3600),
                "from 1970-01-01 01:00:00 +01:00 till",
                "UTC+01:00  ",
            ),
        ] {
            let lines = draw(&calendar(), &Axis::new(day, 60, zone));
            assert!(lines[0].contains(from), "{}", lines[0]);
            assert!(lines[10].trim_start().starts_with(name), "{lines:#?}");
        }
    }

    #[test]
    fn calendar_lines_fit_the_terminal() {
        for width in [48, 80, 137] {
            let day = (Timestamp(0), Timestamp(86_400_000_000_000));
            let axis = Axis::new(day, columns(width), Zone::new(|_| -12_600));
            for line in &draw(&calendar(), &axis)[1..] {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}
