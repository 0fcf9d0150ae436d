//! What the command shows: a line of progress, a summary, or JSON.

use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::sync::OnceLock;

use lighthaul_base::escape::{LINE_MAX, escape, escape_json};
use lighthaul_base::{Instant, Rate, Size};
use lighthaul_io::host::clock::{Clock, cpu_seconds};
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::hash::Hashed;
use lighthaul_transfer::options::{Action, Planned};
use lighthaul_transfer::watch::{Motion, Sight, Start, Summary};
use serde_json::{Value, json};

use crate::args::Progress;
use crate::name::{put, shown};
use crate::sums::line;

/// Says one line on standard error. What a peer wrote into it cannot move the terminal or begin another line.
pub(crate) fn say(text: &str) {
    writeln!(stderr(), "{}", escape(text, LINE_MAX)).ok();
}

/// Asks a question on standard error; the answer is typed behind it.
pub(crate) fn ask(text: &str) {
    write!(stderr(), "{}", escape(text, LINE_MAX)).ok();
    stderr().flush().ok();
}

/// Prints a line on standard output. A failure is told when the command ends, see [`unprinted`].
pub(crate) fn print(text: &str) {
    print_octets(text.as_bytes());
}

/// Prints a line of octets on standard output.
fn print_octets(line: &[u8]) {
    let mut out = stdout().lock();
    let printed = out.write_all(line).and_then(|()| out.write_all(b"\n"));
    if let Err(error) = printed {
        UNPRINTED.set(error).ok();
    }
}

/// The first failure to print on standard output.
static UNPRINTED: OnceLock<io::Error> = OnceLock::new();

/// Why standard output does not have all that was printed; nothing if it has, or if nobody reads any more.
pub(crate) fn unprinted() -> Option<Error> {
    let flushed = stdout().flush().err();
    let error = UNPRINTED.get().or(flushed.as_ref())?;
    let is_loss = error.kind() != io::ErrorKind::BrokenPipe;
    is_loss.then(|| {
        Error::file(
            Code::Io,
            "cannot write",
            Path::new("standard output"),
            error,
        )
    })
}

/// Prints a JSON object as one line; hidden characters in it are escaped as JSON allows.
pub(crate) fn print_json(event: &Value) {
    print(&escape_json(&event.to_string()));
}

/// Prints `error` as an event.
pub(crate) fn error_event(error: &Error) {
    let event = json!({"v": 1, "type": "error", "code": error.code as u8, "text": error.text});
    print_json(&event);
}

/// How much to show.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub(crate) struct Settings {
    pub(crate) progress: Progress,
    pub(crate) json: bool,
    pub(crate) stats: bool,
    pub(crate) quiet: bool,
    /// What a copy that went well proves.
    pub(crate) proof: Proof,
    /// A dry run tells why.
    pub(crate) explain: bool,
}

/// What is proved by a copy that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The target has what the source has.
    All,
    /// What was moved arrived; the rest looks the same.
    Moved,
    /// Nothing was compared.
    None,
    /// Nothing was done.
    DryRun,
}

/// Watches a transfer and shows it.
#[derive(Debug)]
pub(crate) struct Printer {
    settings: Settings,
    bar: bool,
    clock: Clock,
    shown_at: Instant,
    shown: Motion,
    start: Option<Start>,
    speed: f64,
    line_open: bool,
    /// The bytes that a dry run plans to send, where they are counted and nothing is shown.
    counted: Option<u64>,
    /// Paths that were removed at the target.
    removed: u64,
    tries: Tries,
}

/// What the tries of a copy came to before the present one.
#[derive(Debug, Default)]
struct Tries {
    /// They failed, and these moved so much together.
    failed: Option<Motion>,
    /// How far the present one is.
    now: Motion,
    /// When data first began to move.
    moving: Option<Instant>,
}

impl Tries {
    /// The present try has failed, and another will be made.
    fn fail(&mut self) {
        let now = std::mem::take(&mut self.now);
        self.failed = Some(added(self.failed.unwrap_or_default(), &now));
    }

    /// What the whole copy came to, of which the last try came to `summary`, at `now` by a clock that began with it.
    fn whole(&self, mut summary: Summary, now: Instant) -> Summary {
        let Some(before) = &self.failed else {
            return summary;
        };
        summary.elapsed = now.since(Instant::ZERO);
        summary.moving = self.moving.map_or(summary.moving, |since| now.since(since));
        summary.motion = added(summary.motion, before);
        summary.motion.total += before.done;
        // what an earlier try has put in place the last one found there
        summary.unchanged = summary.unchanged.saturating_sub(before.published);
        summary
    }
}

/// What both moved together.
fn added(mut one: Motion, other: &Motion) -> Motion {
    one.done += other.done;
    one.sent += other.sent;
    one.resent += other.resent;
    one.buffer_drops += other.buffer_drops;
    one.foreign += other.foreign;
    one.published += other.published;
    one.round = one.round.max(other.round);
    one
}

impl Printer {
    pub(crate) fn new(settings: Settings) -> Self {
        let bar = match settings.progress {
            Progress::Auto => stderr().is_terminal() && !settings.json && !settings.quiet,
            Progress::Bar => true,
            Progress::Plain | Progress::None => false,
        };
        Self {
            settings,
            bar,
            clock: Clock::start(),
            shown_at: Instant::ZERO,
            shown: Motion::default(),
            start: None,
            speed: 0.0,
            line_open: false,
            counted: None,
            removed: 0,
            tries: Tries::default(),
        }
    }

    /// A try has failed, and another will be made.
    pub(crate) fn try_again(&mut self) {
        self.tries.fail();
        self.shown = Motion::default();
    }

    /// What the whole copy came to, of which the last try came to `summary`.
    pub(crate) fn whole(&self, summary: Summary) -> Summary {
        self.tries.whole(summary, self.clock.now())
    }

    /// A printer that shows nothing, and counts the bytes that a dry run plans to send.
    pub(crate) fn counting() -> Self {
        let mut printer = Self::new(Settings {
            progress: Progress::None,
            json: false,
            stats: false,
            quiet: true,
            proof: Proof::DryRun,
            explain: false,
        });
        printer.counted = Some(0);
        printer
    }

    /// What it has counted.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.unwrap_or(0)
    }

    fn count(bytes: &mut u64, sight: &Sight) {
        if let Sight::Planned(planned) = sight
            && !matches!(planned.action, Action::Delete | Action::Exclude)
        {
            *bytes = bytes.saturating_add(planned.bytes);
        }
    }

    /// Shows what was seen.
    pub(crate) fn watch(&mut self, sight: Sight) {
        if let Some(bytes) = &mut self.counted {
            return Self::count(bytes, &sight);
        }
        match sight {
            Sight::Started(start) => self.started(start),
            Sight::Moving(motion) => self.moving(motion),
            Sight::Round { number, packets } => {
                self.emit(|| json!({"type": "round", "round": number, "packets": packets}));
            }
            Sight::Diverted(why) => {
                self.emit(|| json!({"type": "warning", "text": why}));
                self.note(&format!("lighthaul: {why}"));
            }
            Sight::Chosen(protocol, why) => {
                self.emit(|| json!({"type": "choice", "protocol": protocol, "why": why}));
                self.note(&format!("lighthaul: {why}"));
            }
            Sight::Planned(planned) => self.planned(&planned),
            Sight::Hashed(hashed) => self.hashed(&hashed),
            Sight::Removed(paths) => paths.iter().for_each(|path| self.removed(path)),
            // it comes again at the end
            Sight::Failed(_) => {}
            Sight::Warning(text) => {
                self.emit(|| json!({"type": "warning", "text": text}));
                self.note(&format!("lighthaul: {text}"));
            }
        }
    }

    /// Tells that `path` was removed at the target.
    fn removed(&mut self, path: &[u8]) {
        self.removed += 1;
        self.emit(|| about(json!({"type": "removed"}), path));
        self.note(&format!("lighthaul: removed {}", shown(path)));
    }

    fn started(&mut self, start: Start) {
        self.tries.moving.get_or_insert_with(|| self.clock.now());
        self.emit(|| {
            json!({
                "type": "start", "protocol": start.protocol, "rate_bps": start.rate_bps, "packet_bytes": start.packet_len,
                "cipher": start.cipher, "digest": start.digest, "startup_s": start.start_up.as_secs_f64(),
            })
        });
        self.start = Some(start);
    }

    fn moving(&mut self, motion: Motion) {
        self.tries.now = motion;
        let now = self.clock.now();
        let every = if self.bar { 200 } else { 1000 };
        let since = now.since(self.shown_at);
        if since.as_millis() < every {
            return;
        }
        let moved = motion.done.saturating_sub(self.shown.done) as f64 * 8.0;
        let speed = moved / since.as_secs_f64();
        self.speed = if self.speed == 0.0 {
            speed
        } else {
            0.7 * self.speed + 0.3 * speed
        };
        self.shown_at = now;
        self.shown = motion;
        let left = (self.speed > 0.0)
            .then(|| motion.total.saturating_sub(motion.done) as f64 * 8.0 / self.speed);
        self.emit(|| {
            json!({
                "type": "progress", "bytes": motion.done, "bytes_total": motion.total,
                "bps": speed, "round": motion.round, "packets_sent": motion.sent,
                "packets_resent": motion.resent, "buffer_drops": motion.buffer_drops,
                "held": motion.held, "left_s": left,
            })
        });
        let plain = self.settings.progress == Progress::Plain;
        if !self.bar && !plain {
            return;
        }
        let line = line(&motion, speed, left);
        if self.bar {
            write!(stderr(), "\r\x1b[K{line}").ok();
            stderr().flush().ok();
            self.line_open = true;
        } else {
            say(&line);
        }
    }

    /// Shows how it ended.
    pub(crate) fn finish(&mut self, result: &Result<Summary, Error>) {
        self.close_line();
        match result {
            Ok(summary) => self.summary(summary),
            Err(error) => {
                self.emit(
                    || json!({"type": "error", "code": error.code as u8, "text": error.text}),
                );
                say(&format!("lighthaul: {error}"));
            }
        }
    }

    fn summary(&mut self, summary: &Summary) {
        for failed in &summary.failures {
            self.emit(|| {
                let event = json!({"type": "error", "code": failed.code, "text": failed.why});
                about(event, &failed.path)
            });
            say(&format!("lighthaul: {}", failed.why));
        }
        let moving = summary.moving;
        let goodput = Rate::of(summary.motion.total, moving);
        let cpu = cpu_seconds();
        let motion = &summary.motion;
        self.emit(|| {
            json!({
                "type": "summary", "entries": summary.entries, "bytes": summary.bytes,
                "unchanged": summary.unchanged, "bytes_moved": motion.total,
                "elapsed_s": summary.elapsed.as_secs_f64(), "moving_s": moving.as_secs_f64(),
                "goodput_bps": goodput.as_bps(), "verified": self.is_verified(summary),
                "rounds": motion.round, "packets": motion.sent, "packets_resent": motion.resent,
                "buffer_drops": motion.buffer_drops, "foreign": motion.foreign,
                "cpu_s": cpu, "failures": summary.failures.len(), "removed": self.removed,
            })
        });
        if self.settings.quiet || self.settings.json {
            return;
        }
        let verified = match self.settings.proof {
            Proof::DryRun => "nothing was done",
            Proof::None => "NOT verified (--verify=none)",
            _ if !summary.failures.is_empty() => "NOT all verified",
            Proof::Moved if summary.unchanged > 0 => "what was moved is verified",
            Proof::Moved | Proof::All => "verified",
        };
        let moved = Size(motion.total);
        let speed = match motion.total {
            _ if self.settings.proof == Proof::DryRun => "a dry run".to_owned(),
            0 => "nothing to move".to_owned(),
            total if total < summary.bytes => format!("{moved} moved at {goodput}"),
            _ => goodput.to_string(),
        };
        let removed = match self.removed {
            0 => String::new(),
            removed => format!("{removed} removed, "),
        };
        say(&format!(
            "{} in {}, {:.2} s ({:.2} s start-up), {speed}, {removed}{verified}",
            Size(summary.bytes),
            entries(summary.entries),
            summary.elapsed.as_secs_f64(),
            summary.elapsed.saturating_sub(moving).as_secs_f64(),
        ));
        if self.settings.stats {
            self.stats(summary, cpu);
        }
    }

    /// Whether all that was moved is proved to have arrived.
    fn is_verified(&self, summary: &Summary) -> bool {
        let proves = matches!(self.settings.proof, Proof::All | Proof::Moved);
        proves && summary.failures.is_empty()
    }

    fn stats(&self, summary: &Summary, cpu: f64) {
        let motion = &summary.motion;
        if let Some(start) = &self.start {
            let rate = start.rate_bps.and_then(Rate::from_bps);
            let rate = rate.map_or_else(|| "as TCP allows".to_owned(), |rate| rate.to_string());
            say(&format!(
                "  rate          {rate} on the wire, {}, compared by {}",
                start.cipher, start.digest
            ));
            say(&format!("  packet        {} bytes", start.packet_len));
        }
        say(&format!("  rounds        {}", motion.round));
        say(&format!(
            "  datagrams     {} ({} of them again)",
            motion.sent, motion.resent
        ));
        say(&format!(
            "  buffer drops  {} (lost in the receiving host)",
            motion.buffer_drops
        ));
        say(&format!(
            "  foreign       {} (not ours, or not genuine)",
            motion.foreign
        ));
        let gb = motion.total as f64 / 1e9;
        let a_gb = match motion.total {
            0 => String::new(),
            _ => format!(", {:.2} s/GB", cpu / gb),
        };
        say(&format!("  CPU           {cpu:.2} s on this side{a_gb}"));
    }

    /// Whether files have begun to move.
    pub(crate) const fn has_moved(&self) -> bool {
        self.start.is_some()
    }

    /// Tells of something that is as it should be.
    pub(crate) fn tell(&mut self, event: Value, text: &str) {
        self.emit(|| event);
        self.note(&format!("lighthaul: {text}"));
    }

    /// Tells of something that does not end the copy.
    pub(crate) fn warn(&mut self, text: &str) {
        self.emit(|| json!({"type": "warning", "text": text}));
        self.note(&format!("lighthaul: {text}"));
    }

    /// What a dry run came to, of one entry.
    /// As an event, or a line for each hash that coreutils could have written.
    fn hashed(&mut self, hashed: &Hashed) {
        self.emit(|| {
            let named = hashed.hashes.iter();
            let named = named.map(|(kind, digits)| (kind.name().to_owned(), json!(digits)));
            let hash = Value::Object(named.collect());
            let event = json!({"type": "file", "size": hashed.size, "hash": hash});
            about(event, &hashed.path)
        });
        if !self.settings.json && !self.settings.quiet {
            self.close_line();
            for (_, digits) in &hashed.hashes {
                print_octets(&line::line(digits, &hashed.path));
            }
        }
    }

    fn planned(&mut self, planned: &Planned) {
        let action = match planned.action {
            Action::Create => "create",
            Action::Replace => "replace",
            Action::Keep => "keep",
            Action::Change => "change",
            Action::Delete => "delete",
            Action::Exclude => "exclude",
        };
        let path = shown(&planned.path);
        self.emit(|| {
            let bytes = planned.bytes;
            let event =
                json!({"type": "plan", "action": action, "bytes": bytes, "why": planned.why});
            about(event, &planned.path)
        });
        if !self.settings.json {
            self.close_line();
            let why = if self.settings.explain || planned.action == Action::Change {
                format!(" ({})", escape(&planned.why, LINE_MAX))
            } else {
                String::new()
            };
            print(&format!("{action:8} {path}{why}"));
        }
    }

    pub(crate) fn note(&mut self, text: &str) {
        if !self.settings.quiet {
            self.close_line();
            say(text);
        }
    }

    fn close_line(&mut self) {
        if self.line_open {
            write!(stderr(), "\r\x1b[K").ok();
            self.line_open = false;
        }
    }

    fn emit(&self, event: impl FnOnce() -> Value) {
        if self.settings.json {
            let mut event = event();
            event["v"] = json!(1);
            print_json(&event);
        }
    }
}

/// The event with the path that it is about.
fn about(mut event: Value, path: &[u8]) -> Value {
    if let Value::Object(event) = &mut event {
        put(event, "path", path);
    }
    event
}

/// So many entries, in words.
fn entries(count: u64) -> String {
    let noun = if count == 1 { "entry" } else { "entries" };
    format!("{count} {noun}")
}

fn line(motion: &Motion, speed: f64, left: Option<f64>) -> String {
    let percent = motion.done.saturating_mul(100) / motion.total.max(1);
    let first = motion.sent.saturating_sub(motion.resent).max(1);
    let loss = motion.resent as f64 * 100.0 / first as f64;
    let left = left.map_or_else(|| "-".to_owned(), |left| format!("{left:.0} s"));
    let held = if motion.held {
        ", waiting for the disk"
    } else {
        ""
    };
    let drops = match motion.buffer_drops {
        0 => String::new(),
        drops => format!(", {drops} buffer drops"),
    };
    format!(
        "{percent:3} % of {}  {:.1} Mb/s  round {}, {loss:.2} % sent again{drops}{held}  {left} left",
        Size(motion.total),
        speed / 1e6,
        motion.round,
    )
}
