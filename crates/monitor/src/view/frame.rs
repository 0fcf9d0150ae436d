//! Frame of the live screen: bars of the processors, then stalls, memory, losses, paths, network and disks.
//!
//! [`frame`] fits any terminal from one column and one line on; on 80x24, it shows 16 processors
//! with a bar each and the busiest interfaces and disks. With more processors, each is one digit:
//! tenths of its time. Bars are in color, or in letters if the user wants no color.

use std::fmt::Write;

use lighthaul_base::escape::escape_name as shown;

use super::path;
use super::row::{bytes, percent, time};
use crate::path::PathTable;
use crate::rates::Rates;
use crate::sample::cpu::{CoreShares, CpuShares};
use crate::sample::interface::InterfaceRates;
use crate::sample::pressure::StallShares;

/// Form of a frame.
#[derive(Clone, Debug)]
pub struct Form {
    /// Columns of the terminal.
    pub width: usize,
    /// Lines of the terminal.
    pub height: usize,
    /// True for bars in color.
    pub has_color: bool,
    /// Name of this host.
    pub host: String,
}

/// Returns the lines of the screen for an interval, none wider than the terminal.
pub fn frame(rates: &Rates, paths: &PathTable, form: &Form) -> Vec<String> {
    let mut lines = vec![title(rates, form), legend(rates)];
    lines.extend(cores(rates, form.width));
    lines.push(pressure(rates));
    lines.push(memory(rates, form.width));
    lines.push(losses(rates));
    let tables = [path::table(paths), interfaces(rates), disks(rates)];
    // the last line names the key; each table has headings
    let space = form.height.saturating_sub(lines.len() + 1);
    let counts = fit(tables.each_ref().map(Vec::len), space);
    for (table, count) in tables.into_iter().zip(counts) {
        if count > 1 {
            lines.extend(table.into_iter().take(count));
        }
    }
    lines.truncate(form.height.saturating_sub(1));
    lines.push("q quits".to_owned());
    let lines = lines.into_iter();
    lines.map(|line| finished(&line, form)).collect()
}

/// Divides `space` lines among the tables equally, then gives unused lines to longer tables, the last table first.
fn fit(wanted: [usize; 3], space: usize) -> [usize; 3] {
    // headings alone say nothing
    let wanted = wanted.map(|count| if count > 1 { count } else { 0 });
    let tables = wanted.iter().filter(|count| **count > 1).count();
    let mut counts = wanted.map(|count| count.min(space / tables.max(1)));
    let mut left = space.saturating_sub(counts.iter().sum());
    for (count, wanted) in counts.iter_mut().zip(wanted).rev() {
        let more = (wanted - *count).min(left);
        *count += more;
        left -= more;
    }
    counts
}

fn title(rates: &Rates, form: &Form) -> String {
    let host = shown(form.host.as_bytes());
    let seconds = rates.interval_s;
    format!("{host}  {}  last {seconds:.1} s", time(rates.time_s))
}

/// Returns the mean of all processors, and the meaning of the parts of bars.
fn legend(rates: &Rates) -> String {
    let parts = parts(&rates.cpu);
    let names = ["user", "system", "softirq", "steal", "iowait"];
    let mut line = format!("CPU {:>5}", percent(rates.cpu.busy()));
    for ((cell, share), name) in parts.into_iter().zip(names) {
        write!(line, "  {cell} {name} {}", percent(share)).ok();
    }
    line
}

/// Returns the parts of a bar: the mark and the share of each part.
const fn parts(shares: &CpuShares) -> [(char, f64); 5] {
    [
        (MARKS[0].cell, shares.user),
        (MARKS[1].cell, shares.system),
        (MARKS[2].cell, shares.softirq),
        (MARKS[3].cell, shares.steal),
        (MARKS[4].cell, shares.iowait),
    ]
}

/// Returns the lines of the processors: one or two bars each, or digits.
fn cores(rates: &Rates, width: usize) -> Vec<String> {
    let cores = &rates.cores;
    let columns = if cores.len() > CORE_LINES { 2 } else { 1 };
    if cores.len() <= columns * CORE_LINES && width / columns > BAR_BESIDE {
        let lines = cores.len().div_ceil(columns);
        let bar = |nth: usize| cores.get(nth).map(|core| core_bar(core, width / columns));
        let line = |nth: usize| [bar(nth), bar(nth + lines).filter(|_| columns > 1)];
        let join = |bars: [Option<String>; 2]| bars.into_iter().flatten().collect::<String>();
        return (0..lines).map(line).map(join).collect();
    }
    let room = width.saturating_sub(DIGITS_BESIDE).max(1);
    let lines = cores.chunks(room).take(CORE_LINES).map(|cores| {
        let first = cores.first().map_or(0, |core| core.core);
        let digits = cores.iter().map(|core| digit(core.shares.busy()));
        format!("{first:>5} {}", digits.collect::<String>())
    });
    lines.collect()
}

/// Returns a digit for a fraction: its tenths, rounded down, at most 9.
#[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
fn digit(fraction: f64) -> char {
    let tenths = (fraction * 10.0) as u32;
    char::from_digit(tenths.min(9), 10).unwrap_or('9')
}

fn core_bar(core: &CoreShares, width: usize) -> String {
    let room = width.saturating_sub(BAR_BESIDE);
    let bar = bar(&parts(&core.shares), room);
    format!(
        "{:>4} [{bar}] {:>5} ",
        core.core,
        percent(core.shares.busy())
    )
}

/// Returns a bar of `width` marks and blanks. Sums are rounded, so that the bar has the right length.
#[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
fn bar(parts: &[(char, f64)], width: usize) -> String {
    let mut bar = String::new();
    let (mut sum, mut length) = (0.0, 0);
    for (mark, share) in parts {
        sum += share;
        let end = ((sum * width as f64).round() as usize).min(width);
        bar.extend(std::iter::repeat_n(*mark, end.saturating_sub(length)));
        length = length.max(end);
    }
    bar.extend(std::iter::repeat_n(' ', width - length));
    bar
}

fn pressure(rates: &Rates) -> String {
    let shares = |name: &str, shares: Option<StallShares>| match shares {
        Some(shares) => format!(
            "{name} {} (all {})",
            percent(shares.some),
            percent(shares.full)
        ),
        None => format!("{name} -"),
    };
    let pressure = &rates.pressure;
    let parts = [
        shares("cpu", pressure.cpu),
        shares("io", pressure.io),
        shares("memory", pressure.memory),
    ];
    format!("stalled: {}", parts.join("  "))
}

fn memory(rates: &Rates, width: usize) -> String {
    let Some(memory) = rates.memory else {
        return "MEM -".to_owned();
    };
    let used = memory.total_bytes.saturating_sub(memory.available_bytes);
    let share = used as f64 / memory.total_bytes.max(1) as f64;
    let swap = memory
        .swap_total_bytes
        .saturating_sub(memory.swap_free_bytes);
    let count = |count: u64| bytes(count as f64);
    let text = format!(
        "{} of {}  dirty {}  swap {}",
        count(used),
        count(memory.total_bytes),
        count(memory.dirty_bytes),
        count(swap)
    );
    let room = width.saturating_sub(text.len() + MEMORY_BESIDE);
    let bar = bar(&[(MARKS[0].cell, share)], room.min(MEMORY_BAR));
    format!(" MEM [{bar}] {text}")
}

fn losses(rates: &Rates) -> String {
    let delay = rates.run_delay.map_or_else(|| "-".to_owned(), percent);
    let udp = rates.udp_losses();
    format!(
        "run delay {delay}  UDP lost {:.0}/s (buffer {:.0}/s)  dropped on arrival {:.0}/s",
        udp.in_errors_per_s, udp.receive_buffer_errors_per_s, rates.softnet_drops_per_s
    )
}

/// Returns the table of interfaces, the busiest first.
fn interfaces(rates: &Rates) -> Vec<String> {
    let mut sorted: Vec<_> = rates.interfaces.iter().collect();
    let load = |nth: &InterfaceRates| nth.rx_bytes_per_s + nth.tx_bytes_per_s;
    sorted.sort_by(|a, b| load(b).total_cmp(&load(a)));
    let head = format!(
        "{:<16} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "INTERFACE", "RX B/S", "TX B/S", "RX P/S", "TX P/S", "DROPS/S", "ERRORS/S"
    );
    let line = |rates: &InterfaceRates| {
        format!(
            "{:<16} {:>8} {:>8} {:>8} {:>8} {:>9.0} {:>9.0}",
            shown(rates.name.as_bytes()),
            bytes(rates.rx_bytes_per_s),
            bytes(rates.tx_bytes_per_s),
            bytes(rates.rx_packets_per_s),
            bytes(rates.tx_packets_per_s),
            rates.rx_drops_per_s + rates.tx_drops_per_s,
            rates.rx_errors_per_s + rates.tx_errors_per_s,
        )
    };
    std::iter::once(head)
        .chain(sorted.into_iter().map(line))
        .collect()
}

/// Returns the table of disks, the busiest first.
fn disks(rates: &Rates) -> Vec<String> {
    let mut sorted: Vec<_> = rates.disks.iter().collect();
    sorted.sort_by(|a, b| b.busy.total_cmp(&a.busy));
    let head = format!(
        "{:<16} {:>8} {:>9} {:>8}",
        "DISK", "READ B/S", "WRITE B/S", "BUSY"
    );
    let lines = sorted.into_iter().map(|rates| {
        format!(
            "{:<16} {:>8} {:>9} {:>8}",
            shown(rates.name.as_bytes()),
            bytes(rates.read_bytes_per_s),
            bytes(rates.write_bytes_per_s),
            percent(rates.busy)
        )
    });
    std::iter::once(head).chain(lines).collect()
}

/// Returns a line cut to the terminal, with its marks as letters or in color.
fn finished(line: &str, form: &Form) -> String {
    let mut text = String::new();
    let mut color = None;
    for letter in line.chars().take(form.width) {
        let mark = MARKS.iter().find(|mark| mark.cell == letter);
        let next = mark.filter(|_| form.has_color).map(|mark| mark.color);
        if next != color {
            text.push_str(next.unwrap_or(PLAIN));
            color = next;
        }
        text.push(match mark {
            Some(_) if form.has_color => '|',
            Some(mark) => mark.letter,
            None => letter,
        });
    }
    if color.is_some() {
        text.push_str(PLAIN);
    }
    text
}

/// Mark of one part of a bar until the line is finished.
#[derive(Debug)]
struct Mark {
    /// Stand-in, from a range that names of devices do not use.
    cell: char,
    letter: char,
    color: &'static str,
}

/// Marks of user, system, softirq, steal and iowait.
const MARKS: [Mark; 5] = [
    Mark {
        cell: '\u{e000}',
        letter: '#',
        color: "\x1b[32m",
    },
    Mark {
        cell: '\u{e001}',
        letter: '=',
        color: "\x1b[34m",
    },
    Mark {
        cell: '\u{e002}',
        letter: '+',
        color: "\x1b[35m",
    },
    Mark {
        cell: '\u{e003}',
        letter: '!',
        color: "\x1b[31m",
    },
    Mark {
        cell: '\u{e004}',
        letter: '~',
        color: "\x1b[33m",
    },
];
const PLAIN: &str = "\x1b[0m";
/// Lines for processors.
const CORE_LINES: usize = 8;
/// Number of columns beside the bar of a processor.
const BAR_BESIDE: usize = 15;
/// Number of columns beside the digits of many processors.
const DIGITS_BESIDE: usize = 6;
/// Maximum length of the memory bar, in columns.
const MEMORY_BAR: usize = 40;
/// Number of columns beside the memory bar and its text.
const MEMORY_BESIDE: usize = 8;

#[cfg(test)]
mod tests {
    use crate::path::PathSample;
    use crate::sample::disk::DiskRates;
    use crate::sample::memory::Memory;

    use super::*;

    fn rates(cores: u32, devices: usize) -> Rates {
        let shares = CpuShares {
            user: 0.5,
            system: 0.25,
            idle: 0.25,
            ..CpuShares::default()
        };
        let disk = |nth: usize| DiskRates {
            name: format!("nvme{nth}n1-with-a-long-name"),
            read_bytes_per_s: 1e9,
            write_bytes_per_s: 1e15,
            busy: 1.0 / (nth + 1) as f64,
        };
        Rates {
            cpu: shares,
            cores: (0..cores).map(|core| CoreShares { core, shares }).collect(),
            memory: Some(Memory {
                total_bytes: 1 << 40,
                available_bytes: 1 << 39,
                ..Memory::default()
            }),
            disks: (0..devices).map(disk).collect(),
            ..Rates::default()
        }
    }

    fn form(width: usize, height: usize, has_color: bool) -> Form {
        let host = "host\x1b[2J".to_owned();
        Form {
            width,
            height,
            has_color,
            host,
        }
    }

    fn paths(count: usize) -> PathTable {
        let mut paths = PathTable::default();
        for nth in 0..count {
            paths.add(&PathSample {
                host: format!("far{nth}\x1b[2J"),
                fault: Some("cannot reach it, for a reason that takes a long line of text".into()),
                ..PathSample::default()
            });
        }
        paths
    }

    #[test]
    fn tables_share_the_space() {
        for (wanted, space, expected) in [
            ([0, 0, 0], 10, [0, 0, 0]),
            ([2, 2, 2], 10, [2, 2, 2]),
            ([9, 9, 9], 9, [3, 3, 3]),
            ([0, 9, 9], 9, [0, 4, 5]),
            ([9, 1, 9], 12, [6, 0, 6]),
            ([9, 2, 3], 12, [7, 2, 3]),
            ([9, 9, 9], 2, [0, 0, 2]),
            ([9, 9, 9], 0, [0, 0, 0]),
        ] {
            assert_eq!(fit(wanted, space), expected, "{wanted:?} in {space}");
        }
    }

    #[test]
    fn usual_terminal_shows_paths_and_devices() {
        let text = frame(&rates(2, 9), &paths(9), &form(80, 24, false)).join("\n");
        for words in ["far0\\x1b[2J", "cannot reach it", "nvme0n1"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn frame_fits_every_terminal() {
        for (cores, devices) in [(0, 0), (1, 1), (2, 3), (16, 40), (17, 2), (512, 9)] {
            for (width, height) in [(80, 24), (1, 1), (20, 5), (40, 12), (200, 60)] {
                let form = form(width, height, false);
                let lines = frame(&rates(cores, devices), &paths(devices), &form);
                assert!(
                    lines.len() <= height,
                    "{cores} {width}x{height}: {lines:#?}"
                );
                for line in &lines {
                    assert!(line.chars().count() <= width, "{width}x{height}: {line}");
                    assert!(!line.contains(['\x1b', '\u{e000}']), "{line}");
                }
            }
        }
    }

    #[test]
    fn usual_terminal_shows_16_processors_and_the_busiest_disks() {
        let none = PathTable::default();
        let lines = frame(&rates(16, 40), &none, &form(80, 24, false));
        let text = lines.join("\n");
        assert!(text.contains("  15 [####"), "{text}");
        assert!(text.contains("=====") && text.contains("75 %"), "{text}");
        assert!(
            text.contains("nvme0n1") && !text.contains("nvme39n1"),
            "{text}"
        );
        assert_eq!(lines.last().map(String::as_str), Some("q quits"));
    }

    #[test]
    fn many_processors_are_shown_as_digits() {
        let none = PathTable::default();
        let text = frame(&rates(100, 0), &none, &form(80, 24, false)).join("\n");
        assert!(text.contains(&"7".repeat(74)), "{text}");
        assert!(text.contains("\n   74 77777"), "{text}");
    }

    #[test]
    fn colors_end_with_their_line() {
        let lines = frame(&rates(2, 0), &paths(1), &form(80, 24, true));
        assert!(lines.iter().any(|line| line.contains("\x1b[32m|||")));
        for line in lines.iter().filter(|line| line.contains('\x1b')) {
            let last = line.rfind('\x1b').unwrap();
            assert!(line[last..].starts_with(PLAIN), "{line:?}");
        }
    }
}
