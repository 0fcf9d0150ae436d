//! Progress of a copy as text: one line for the whole, and one for each file that moves.
//!
//! [`Form::lines`] writes for a terminal, [`plain`] for a log. No line is wider than the terminal.
//! Parts that do not fit are left out whole, the least important first.

use std::env;
use std::io::stderr;

use lighthaul_base::{Rate, Size, counted};
use lighthaul_copy::watch::{CopyProgress, CurrentFile};

use crate::output::name::shown;
use lighthaul_copy::pace::{Pace, SAMPLES_MAX, whole};

/// Width of a terminal that does not report its width.
const WIDTH: usize = 80;
/// Minimum and maximum width of the bar.
const BAR: (usize, usize) = (8, 40);
/// Width of a file's line without the name.
const BESIDE_NAME: usize = 24;
/// Shortest name that fits in a file's line.
const NAME_MIN: usize = 12;
const SPARKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Form of the lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Width of the terminal in columns.
    pub(super) width: usize,
    /// True if the terminal shows characters beyond ASCII.
    pub(super) unicode: bool,
}

impl Form {
    /// Returns the form for the terminal at standard error.
    pub(super) fn of_terminal() -> Self {
        let size = rustix::termios::tcgetwinsize(stderr()).map_or(0, |size| size.ws_col);
        let named = || env::var("COLUMNS").ok()?.parse().ok();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
        let locale = locale.unwrap_or_default().to_lowercase();
        Self {
            width: match size {
                0 => named().unwrap_or(WIDTH),
                columns => columns.into(),
            },
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// Returns the lines for a terminal, no wider than the terminal.
    pub(super) fn lines(
        self,
        progress: &CopyProgress,
        pace: &Pace,
        files: &[CurrentFile],
    ) -> Vec<String> {
        let mut lines = vec![self.whole(progress, pace)];
        // the line of the only file would be the same
        let only = files.len() == 1 && files[0].size == progress.total;
        if !only && self.width > BESIDE_NAME + NAME_MIN {
            lines.extend(files.iter().map(|file| self.file(file)));
        }
        lines
    }

    /// Returns the line for the whole copy: the most important fields that fit, none of them cut.
    fn whole(self, progress: &CopyProgress, pace: &Pace) -> String {
        // the last column makes some terminals wrap
        let width = self.width.saturating_sub(1);
        let head = format!("{:3} %", percent(progress.done, progress.total));
        let [amount, rate, left] = essence(progress, pace);
        let done = Size(progress.done).to_string();
        let tails = [
            vec![&amount, &rate, &left],
            vec![&done, &rate, &left],
            vec![&rate, &left],
            vec![&left],
        ];
        let tails = tails.map(|parts| parts.into_iter().map(|part| format!("  {part}")));
        let mut tails = tails.into_iter().map(Iterator::collect::<String>);
        let room = width.saturating_sub(columns(&head));
        let Some(mut tail) = tails.find(|tail| columns(tail) <= room) else {
            return cut(&head, width);
        };
        let mut room = room - columns(&tail);
        let sparks = if self.unicode {
            sparks(pace)
        } else {
            String::new()
        };
        // the bar, its brackets and the blank before it; the first two parts may take its place
        let bar = BAR.0 + 3;
        for (extra, beside) in [
            (held(progress), 0),
            (entries(progress), 0),
            (Some(sparks), bar),
            (resent(progress), bar),
        ] {
            let extra = extra.unwrap_or_default();
            if !extra.is_empty() && columns(&extra) + 2 + beside <= room {
                room -= columns(&extra) + 2;
                tail = format!("{tail}  {extra}");
            }
        }
        if room < bar {
            return head + &tail;
        }
        let bar = self.bar(progress, (room - 3).min(BAR.1));
        format!("{head} {bar}{tail}")
    }

    /// Returns the line for one file.
    fn file(self, file: &CurrentFile) -> String {
        let room = self.width - 1 - BESIDE_NAME;
        let name = self.shortened(&shown(&file.path), room);
        let pad = " ".repeat(room - columns(&name));
        let size = Size(file.size).to_string();
        let percent = percent(file.done, file.size);
        format!("  {name}{pad}  {percent:3} % of {size}")
    }

    fn bar(self, progress: &CopyProgress, width: usize) -> String {
        let done = u128::from(progress.done.min(progress.total)) * width as u128;
        let filled = usize::try_from(done / u128::from(progress.total.max(1))).unwrap_or(width);
        let (full, empty) = if self.unicode {
            ("█", "░")
        } else {
            ("#", ".")
        };
        format!("[{}{}]", full.repeat(filled), empty.repeat(width - filled))
    }

    /// Returns the name, shortened in the middle if it is too long. Its end tells more than its start.
    fn shortened(self, name: &str, room: usize) -> String {
        let letters: Vec<char> = name.chars().collect();
        if letters.len() <= room {
            return name.to_owned();
        }
        let gap = if self.unicode { "…" } else { "..." };
        let kept = room.saturating_sub(columns(gap));
        let head = kept / 3;
        let tail = letters.len() - (kept - head);
        let head: String = letters[..head].iter().collect();
        let tail: String = letters[tail..].iter().collect();
        head + gap + &tail
    }
}

/// Returns the line for output that is no terminal.
pub(super) fn plain(progress: &CopyProgress, pace: &Pace) -> String {
    let mut line = format!(
        "{:3} %  {}",
        percent(progress.done, progress.total),
        essence(progress, pace).join("  ")
    );
    let parts = [entries(progress), resent(progress), held(progress)];
    for part in parts.into_iter().flatten() {
        line = format!("{line}  {part}");
    }
    line
}

/// Returns the fields of every progress line: amount, rate and remaining time.
fn essence(progress: &CopyProgress, pace: &Pace) -> [String; 3] {
    let rate = Rate::from_bps(whole(pace.rate() * 8.0));
    let rate = rate.map_or_else(|| "0 b/s".to_owned(), short);
    let left = pace.left().map_or_else(|| "-:--".to_owned(), clock);
    let total = Size(progress.total).to_string();
    let done = Size(progress.done).to_string();
    [
        format!("{done:>width$} of {total}", width = columns(&total)),
        format!("{rate:>9}"),
        format!("{left} left"),
    ]
}

fn held(progress: &CopyProgress) -> Option<String> {
    let text = "waiting for the target disk";
    progress.held.then(|| text.to_owned())
}

fn entries(progress: &CopyProgress) -> Option<String> {
    let count = progress.published;
    (count > 0).then(|| counted(count, "entry", "entries") + " done")
}

fn resent(progress: &CopyProgress) -> Option<String> {
    let share = progress.resent_percent();
    (progress.resent > 0).then(|| format!("{share:.2} % retransmitted"))
}

fn sparks(pace: &Pace) -> String {
    let spark = |eighth: u8| SPARKS[usize::from(eighth).min(SPARKS.len() - 1)];
    let sparks: String = pace.eighths().into_iter().map(spark).collect();
    // of one width, so that the bar keeps its own
    format!("{sparks:>SAMPLES_MAX$}")
}

fn percent(done: u64, total: u64) -> u64 {
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    u64::try_from(percent).unwrap_or(100).min(100)
}

/// Returns a rate with three digits.
fn short(rate: Rate) -> String {
    let bps = rate.as_bps() as f64;
    let (unit, name) = match rate.as_bps() {
        1_000_000_000.. => (1e9, "Gb/s"),
        1_000_000.. => (1e6, "Mb/s"),
        1_000.. => (1e3, "kb/s"),
        _ => (1.0, "b/s"),
    };
    let number = bps / unit;
    let digits = if number < 10.0 {
        2
    } else {
        usize::from(number < 100.0)
    };
    format!("{number:.digits$} {name}")
}

/// Returns a time as minutes and seconds, with hours if needed.
fn clock(seconds: f64) -> String {
    let seconds = whole(seconds.ceil());
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 {
        format!("{minutes}:{rest:02}")
    } else {
        format!("{hours}:{minutes:02}:{rest:02}")
    }
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

fn cut(line: &str, width: usize) -> String {
    line.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A copy of 2.88 GiB, of which `percent` % have moved at 941 Mb/s.
    fn state(percent: u64) -> (CopyProgress, Pace) {
        let total = 3_092_376_453;
        let progress = CopyProgress {
            done: total / 100 * percent,
            total,
            sent: 101,
            resent: 1,
            published: 37,
            ..CopyProgress::default()
        };
        let mut pace = Pace::default();
        for second in 1..=12 {
            let bytes = 941_000_000 / 8 + u64::from(second % 2 == 0);
            pace.add(bytes, Duration::from_secs(1), &progress);
        }
        (progress, pace)
    }

    fn files(names: &[&str]) -> Vec<CurrentFile> {
        let file = |name: &&str| CurrentFile {
            path: name.as_bytes().to_vec(),
            done: 1 << 20,
            size: 4 << 20,
        };
        names.iter().map(file).collect()
    }

    #[test]
    fn progress_line_drops_parts_that_do_not_fit() {
        let (progress, pace) = state(42);
        let files = files(&["data/run1.h5", &"long/".repeat(30)]);
        let lines = |width, unicode| Form { width, unicode }.lines(&progress, &pace, &files);
        assert_eq!(
            lines(80, true),
            [
                " 41 % [████░░░░░░]  1.21 GiB of 2.88 GiB   941 Mb/s  0:12 left  37 entries done",
                "  data/run1.h5                                              25 % of 4.00 MiB",
                "  long/long/long/lon…/long/long/long/long/long/long/long/   25 % of 4.00 MiB",
            ]
        );
        assert_eq!(
            lines(120, false)[0],
            " 41 % [###########.................]  1.21 GiB of 2.88 GiB   941 Mb/s  0:12 left  37 entries done  1.00 % retransmitted"
        );
        assert_eq!(lines(36, true).len(), 1);
    }

    #[test]
    fn narrow_line_omits_whole_fields_but_not_the_remaining_time() {
        let (progress, pace) = state(42);
        for (width, line) in [
            (60, " 41 %  1.21 GiB of 2.88 GiB   941 Mb/s  0:12 left"),
            (40, " 41 %  1.21 GiB   941 Mb/s  0:12 left"),
            (30, " 41 %   941 Mb/s  0:12 left"),
            (20, " 41 %  0:12 left"),
            (10, " 41 %"),
        ] {
            let form = Form {
                width,
                unicode: false,
            };
            assert_eq!(form.lines(&progress, &pace, &[])[0], line, "{width}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let names = ["a", &"ü".repeat(200), "\u{1b}[2J"];
        for width in 1..200 {
            for percent in [0, 50, 100] {
                let (mut progress, pace) = state(percent);
                progress.held = percent == 50;
                for unicode in [false, true] {
                    let form = Form { width, unicode };
                    for line in form.lines(&progress, &pace, &files(&names)) {
                        assert!(columns(&line) < width.max(2), "{width}: {line}");
                        assert!(!line.contains('\u{1b}'), "{line}");
                        assert!(unicode || line.replace('ü', "").is_ascii(), "{line}");
                    }
                }
            }
        }
    }

    #[test]
    fn single_file_has_no_separate_line() {
        let (progress, pace) = state(1);
        let mut files = files(&["a"]);
        files[0].size = progress.total;
        let form = Form {
            width: 80,
            unicode: true,
        };
        assert_eq!(form.lines(&progress, &pace, &files).len(), 1);
    }

    #[test]
    fn times_are_minutes_or_hours() {
        for (seconds, text) in [
            (0.0, "0:00"),
            (59.1, "1:00"),
            (3599.0, "59:59"),
            (3600.5, "1:00:01"),
        ] {
            assert_eq!(clock(seconds), text);
        }
    }

    #[test]
    fn plain_progress_line_has_all_parts() {
        let (mut progress, pace) = state(42);
        progress.held = true;
        assert_eq!(
            plain(&progress, &pace),
            " 41 %  1.21 GiB of 2.88 GiB   941 Mb/s  0:12 left  37 entries done  1.00 % retransmitted  waiting for the target disk"
        );
    }
}
