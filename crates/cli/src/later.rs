//! When a copy runs, how fast at which hour, and what is done when it is stopped.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use jiff::civil::Date;
use lighthaul_base::{Instant, ParseTimetableError, Timetable};
use lighthaul_io::fs::durable;
use lighthaul_io::host::clock::{Clock, unix_nanos, unix_of_local};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::wait;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::filter::failure_record;
use lighthaul_transfer::watch::Summary;

use crate::args::Cp;
use crate::booking::time::Time;
use crate::print::Printer;

/// The longest pause before another try.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// When a copy runs, and what is done when it is stopped.
#[derive(Args, Clone, Debug)]
pub(crate) struct Later {
    /// Limit the rate, as rclone writes it: 10M, or by the clock: '08:00,100Mbit 18:00,off'
    #[arg(long, value_name = "TIMETABLE", env = "LIGHTHAUL_LIMIT")]
    pub(crate) limit: Option<Limit>,
    /// Go on so many times after the network failed while files were moving
    #[arg(long, value_name = "N", default_value_t = 5, env = "LIGHTHAUL_RETRIES")]
    pub(crate) retries: u32,
    /// Give the far side up that says nothing for so many seconds [default: 20]
    #[arg(long, value_name = "SECONDS", env = "LIGHTHAUL_STALL_TIMEOUT")]
    pub(crate) stall_timeout: Option<Seconds>,
    /// Stop at this local time, as in 18:30 or 2031-05-01T06:00; the same command goes on later
    #[arg(long, value_name = "TIME")]
    pub(crate) stop_at: Option<LocalTime>,
    /// With --book, have all there, checked and synced, by this local time, or hear what could be had instead
    #[arg(long, value_name = "TIME", visible_alias = "by", requires = "book")]
    pub(crate) deadline: Option<Time>,
    /// Write what failed to FILE, for --files-from of the same command to read
    #[arg(long, value_name = "FILE")]
    pub(crate) failures: Option<PathBuf>,
}

/// A timetable, and how it was written.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) text: String,
    pub(crate) table: Timetable,
}

impl FromStr for Limit {
    type Err = ParseTimetableError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let table = text.parse()?;
        Ok(Self {
            text: text.to_owned(),
            table,
        })
    }
}

/// A number of seconds, not zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) u32);

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_suffix('s').unwrap_or(text);
        match digits.parse() {
            Ok(seconds @ 1..) => Ok(Self(seconds)),
            _ => Err("write a number of seconds above zero"),
        }
    }
}

/// A moment, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalTime(i64);

impl LocalTime {
    /// Seconds since 1970.
    pub(crate) const fn seconds(self) -> i64 {
        self.0
    }
}

impl FromStr for LocalTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = "write a local time as 18:30 or 2031-05-01T06:00";
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (Some(date), time),
            None => (None, text),
        };
        let time = numbers::<3>(time, ':', 2).ok_or(wrong)?;
        let date = match date {
            Some(text) => {
                let date = numbers::<3>(text, '-', 3).ok_or(wrong)?;
                check_day(text, date)?;
                Some(date)
            }
            None => None,
        };
        if time[0] > 23 || time[1] > 59 || time[2] > 60 {
            return Err(wrong.to_owned());
        }
        Ok(unix_of_local(date, time).map(Self).ok_or(wrong)?)
    }
}

/// Refuses a day that no calendar has, which the clock of the host would take for a later one.
fn check_day(text: &str, [year, month, day]: [i32; 3]) -> Result<(), String> {
    let small = |number: i32| i8::try_from(number).unwrap_or(0);
    let year = i16::try_from(year).unwrap_or(i16::MAX);
    let found = Date::new(year, small(month), small(day));
    let wrong = || format!("there is no day {text}: say one that the calendar has");
    found.map(drop).map_err(|_| wrong())
}

/// At least `least` numbers with `mark` between them; zero for those that are not there.
fn numbers<const N: usize>(text: &str, mark: char, least: usize) -> Option<[i32; N]> {
    let mut numbers = [0; N];
    let mut count = 0;
    for part in text.split(mark) {
        *numbers.get_mut(count)? = part.parse().ok().filter(|number| *number >= 0)?;
        count += 1;
    }
    (count >= least).then_some(numbers)
}

/// Runs `copy`, again when the network failed, until it is done or its time has come.
pub(crate) fn run(
    args: &Cp,
    printer: &mut Printer,
    copy: impl Fn(&Cp, &mut Printer) -> Result<Summary, Error>,
) -> Result<Summary, Error> {
    if let Some(LocalTime(at)) = args.later.stop_at {
        stop_at(at);
    }
    let mut pause = Duration::from_secs(1);
    // a list that came through a pipe cannot be read again
    let again = args.choice.files_from.as_deref() != Some(Path::new("-"));
    let mut left = if again { args.later.retries } else { 0 };
    loop {
        let result = copy(args, printer);
        let error = match result {
            Ok(summary) => return Ok(printer.whole(summary)),
            Err(error) => error,
        };
        let passing = matches!(error.code, Code::Network | Code::TimedOut);
        if interrupt::is_requested() && stopped(args) {
            let text = "stopped at the time that --stop-at says; the same command goes on";
            return Err(Error::new(Code::TimedOut, text));
        }
        if !passing || left == 0 || !printer.has_moved() {
            return Err(error);
        }
        left -= 1;
        printer.try_again();
        let text = format!(
            "{error}; going on in {} s ({left} tries left)",
            pause.as_secs()
        );
        printer.warn(&text);
        sleep(pause)?;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Asks this process to stop at a moment.
fn stop_at(at: i64) {
    let seconds = at.saturating_sub((unix_nanos() / 1_000_000_000).cast_signed());
    let pause = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    std::thread::spawn(move || {
        std::thread::sleep(pause);
        interrupt::request();
    });
}

fn stopped(args: &Cp) -> bool {
    let now = (unix_nanos() / 1_000_000_000).cast_signed();
    args.later.stop_at.is_some_and(|LocalTime(at)| at <= now)
}

/// Waits, unless it is interrupted.
pub(crate) fn sleep(pause: Duration) -> Result<(), Error> {
    let clock = Clock::start();
    while clock.now() < Instant::ZERO + pause {
        interrupt::check()?;
        let until = clock.now() + Duration::from_millis(100);
        wait(clock, &mut [], until)
            .map_err(|e| Error::new(Code::Io, format!("cannot wait: {e}")))?;
    }
    Ok(())
}

impl Later {
    /// The file for what fails, if one is wanted; what is in it stays until the copy is over, since this copy may be reading it.
    pub(crate) fn open_failures(&self) -> Result<Option<File>, Error> {
        let Some(path) = &self.failures else {
            return Ok(None);
        };
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(path);
        let failed = |e| Error::file(Code::Open, "cannot write", path, &e);
        file.map(Some).map_err(failed)
    }
}

/// Writes what failed, a line each, in place of what is in the file.
pub(crate) fn note_failures(args: &Cp, file: &File, summary: &Summary) -> Result<(), Error> {
    let path = args
        .later
        .failures
        .as_deref()
        .unwrap_or_else(|| Path::new(""));
    let failed = |e| Error::file(Code::Io, "cannot write", path, &e);
    let mut lines = Vec::new();
    for failure in &summary.failures {
        let path = from_source(args, &failure.path);
        if !path.is_empty() {
            let error = Error::new(Code::from_number(failure.code), failure.why.clone());
            lines.extend(failure_record(path, &error).as_bytes());
            lines.push(b'\n');
        }
    }
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    let mut writer = file;
    let written = if is_file {
        durable::replace(path, &lines)
    } else {
        // a pipe, say
        writer.write_all(&lines)
    };
    written.map_err(failed)
}

/// The path as it is seen from the one source, as --files-from sees it: without the name that a copy gives the folder which was named.
fn from_source<'a>(args: &Cp, path: &'a [u8]) -> &'a [u8] {
    let is_named = args.paths.len() == 2 && !args.paths[0].ends_with('/');
    let is_walked = args.choice.files_from.is_none();
    match path.iter().position(|octet| *octet == b'/') {
        Some(end) if is_named && is_walked => &path[end + 1..],
        _ => path,
    }
}

/// The same, with the command that goes on if it is that somebody interrupted a copy.
pub(crate) fn with_command(args: &Cp, error: Error) -> Error {
    let gateway = args.via.through.gateway.as_ref();
    let tells_password = gateway.is_some_and(|gateway| gateway.credentials.is_some());
    if error.code != Code::Interrupted || args.choice.dry_run.is_some() {
        return error;
    }
    let words = std::env::args_os().map(|word| {
        let word = word.to_string_lossy();
        shlex::try_quote(&word).map_or_else(|_| word.to_string(), Into::into)
    });
    let words: Vec<String> = words.collect();
    let command = if tells_password {
        "the same command".to_owned()
    } else {
        words.join(" ")
    };
    let text = format!("interrupted; what has arrived stays, and this goes on: {command}");
    Error::new(Code::Interrupted, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_and_to_come() {
        let now = (unix_nanos() / 1_000_000_000).cast_signed();
        for text in ["0:00", "18:30", "23:59:59"] {
            let LocalTime(at) = text.parse().unwrap();
            assert!(at > now - 1 && at <= now + 25 * 3600, "{text}: {at}");
        }
        let LocalTime(early) = "2031-05-01T06:00".parse().unwrap();
        let LocalTime(late) = "2031-05-01 06:01:01".parse().unwrap();
        assert_eq!(late - early, 61);
        for text in [
            "",
            "24:00",
            "1",
            "1:60",
            "2031-05T1:00",
            "x:y",
            "-1:00",
            "2031-02-29T1:00",
        ] {
            assert!(text.parse::<LocalTime>().is_err(), "{text}");
        }
    }
}
