//! Output of a copy: progress, a summary, or JSON events.

use std::io::{IsTerminal, Write, stderr};

use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_base::{Instant, Size};
use lighthaul_copy::watch::{CopyEvent, CopyProgress, Start, Summary};
use lighthaul_files::hash::FileHashes;
use lighthaul_files::item::ItemKind;
use lighthaul_files::options::{Action, Planned};
use lighthaul_files::sums::line;
use lighthaul_grammar::output::Progress;
use lighthaul_io::host::clock::{Clock, cpu_seconds};
use lighthaul_session::error::Error;
use serde_json::{Value, json};

use crate::copy::attempts::Attempts;
use crate::copy::summary::{Proof, event, sentence, stats};
use crate::output::name::{put, shown};
use crate::output::print::{print, print_json, print_octets, say};

/// Amount of output.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub(crate) struct Settings {
    pub(crate) progress: Progress,
    pub(crate) json: bool,
    pub(crate) stats: bool,
    pub(crate) quiet: bool,
    /// Proof that a successful copy gives.
    pub(crate) proof: Proof,
    /// Dry runs show reasons.
    pub(crate) explain: bool,
    /// Shows the path of each entry that was changed.
    pub(crate) verbose: bool,
    /// Shows the differences of each entry.
    pub(crate) items: bool,
    /// True if this side sends the data.
    pub(crate) sends: bool,
}

/// Shows the progress and the end of a transfer.
#[derive(Debug)]
pub(crate) struct Printer {
    settings: Settings,
    bar: bool,
    clock: Clock,
    shown_at: Instant,
    shown: CopyProgress,
    start: Option<Start>,
    speed: f64,
    line_open: bool,
    /// Bytes that a dry run would send, if they are counted and nothing is shown.
    counted: Option<u64>,
    /// Number of paths that were removed at the target.
    removed: u64,
    tries: Attempts,
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
            shown: CopyProgress::default(),
            start: None,
            speed: 0.0,
            line_open: false,
            counted: None,
            removed: 0,
            tries: Attempts::default(),
        }
    }

    /// Records that an attempt has failed and another follows.
    pub(crate) fn try_again(&mut self) {
        self.tries.fail();
        self.shown = CopyProgress::default();
    }

    /// Returns the summary of all attempts; `summary` is that of the last one.
    pub(crate) fn whole(&self, summary: Summary) -> Summary {
        self.tries.whole(summary, self.clock.now())
    }

    /// Returns a printer that shows nothing and counts the bytes of a dry run.
    pub(crate) fn counting() -> Self {
        let mut printer = Self::new(Settings {
            progress: Progress::None,
            json: false,
            stats: false,
            quiet: true,
            proof: Proof::DryRun,
            explain: false,
            verbose: false,
            items: false,
            sends: true,
        });
        printer.counted = Some(0);
        printer
    }

    /// Returns the counted bytes.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.unwrap_or(0)
    }

    fn count(bytes: &mut u64, sight: &CopyEvent) {
        if let CopyEvent::Planned(planned) = sight
            && !matches!(
                planned.action,
                Action::Delete | Action::Exclude | Action::Skip
            )
        {
            *bytes = bytes.saturating_add(planned.bytes);
        }
    }

    /// Shows one observation.
    pub(crate) fn watch(&mut self, sight: CopyEvent) {
        if let Some(bytes) = &mut self.counted {
            return Self::count(bytes, &sight);
        }
        match sight {
            CopyEvent::Started(start) => self.started(start),
            CopyEvent::Moving(motion) => self.moving(motion),
            CopyEvent::Round { number, packets } => {
                self.emit(|| json!({"type": "round", "round": number, "packets": packets}));
            }
            CopyEvent::Diverted(why) => {
                self.emit(|| json!({"type": "warning", "text": why}));
                self.note(&format!("lighthaul: {why}"));
            }
            CopyEvent::Chosen(protocol, why) => {
                self.emit(|| json!({"type": "choice", "protocol": protocol, "why": why}));
                self.note(&format!("lighthaul: {why}"));
            }
            CopyEvent::Planned(planned) => self.planned(&planned),
            CopyEvent::Done(planned) => self.done(&planned),
            CopyEvent::Hashed(hashed) => self.hashed(&hashed),
            CopyEvent::Removed(paths) => paths.iter().for_each(|path| self.removed(path)),
            // failures are printed at the end
            CopyEvent::Failed(_) => {}
            CopyEvent::Warning(text) => {
                self.emit(|| json!({"type": "warning", "text": text}));
                self.note(&format!("lighthaul: {text}"));
            }
        }
    }

    /// Reports that `path` was removed at the target.
    fn removed(&mut self, path: &[u8]) {
        self.removed += 1;
        self.emit(|| about(json!({"type": "removed"}), path));
        if !self.settings.items {
            self.note(&format!("lighthaul: removed {}", shown(path)));
        } else if !self.settings.json {
            self.item("*deleting  ", path, "");
        }
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

    fn moving(&mut self, motion: CopyProgress) {
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

    /// Shows the end of the copy.
    pub(crate) fn finish(&mut self, result: &Result<Summary, Error>) {
        self.close_line();
        match result {
            Ok(summary) => self.summary(summary),
            Err(error) => {
                self.emit(
                    || json!({"type": "error", "code": error.code() as u8, "text": error.text()}),
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
        let cpu = cpu_seconds();
        let proof = self.settings.proof;
        self.emit(|| event(summary, proof, self.removed, cpu));
        if self.settings.quiet || self.settings.json {
            return;
        }
        say(&sentence(summary, proof, self.removed));
        if self.settings.stats {
            for line in stats(summary, self.start.as_ref(), cpu) {
                say(&line);
            }
        }
    }

    /// Returns true if files have begun to move.
    pub(crate) const fn has_moved(&self) -> bool {
        self.start.is_some()
    }

    /// Prints a note that is not a fault.
    pub(crate) fn tell(&mut self, event: Value, text: &str) {
        self.emit(|| event);
        self.note(&format!("lighthaul: {text}"));
    }

    /// Reports a fault that does not end the copy.
    pub(crate) fn warn(&mut self, text: &str) {
        self.emit(|| json!({"type": "warning", "text": text}));
        self.note(&format!("lighthaul: {text}"));
    }

    /// Shows the hashes of a file, as an event or as lines in the format of sha256sum.
    fn hashed(&mut self, hashed: &FileHashes) {
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

    /// Shows the planned action for one entry.
    fn planned(&mut self, planned: &Planned) {
        let action = word(planned.action);
        let path = shown(&planned.path);
        self.emit(|| {
            let (bytes, kept) = (planned.bytes, planned.kept);
            let event = json!({
                "type": "plan", "action": action, "bytes": bytes, "kept": kept, "why": planned.why
            });
            about(self.with_item(event, planned), &planned.path)
        });
        let is_change = planned.item.is_some() || planned.action == Action::Delete;
        if self.settings.items && !self.settings.explain {
            if is_change && !self.settings.json {
                self.itemized(planned);
            }
        } else if !self.settings.json {
            self.close_line();
            let why = if self.settings.explain || planned.action == Action::Change {
                format!(" ({})", escape(&planned.why, LINE_MAX))
            } else {
                String::new()
            };
            let kept = match planned.kept {
                0 => String::new(),
                bytes => format!(", keeps {} of an earlier copy", Size(bytes)),
            };
            print(&format!("{action:8} {path}{why}{kept}"));
        }
    }

    /// Shows an entry that was changed.
    fn done(&mut self, planned: &Planned) {
        self.emit(|| {
            let event = json!({"type": "copied", "action": word(planned.action)});
            about(self.with_item(event, planned), &planned.path)
        });
        if self.settings.json {
            return;
        }
        if self.settings.items {
            self.itemized(planned);
        } else if self.settings.verbose {
            self.close_line();
            print(&format!("{}{}", shown(&planned.path), slash(planned)));
        }
    }

    /// Shows the differences of an entry.
    fn itemized(&mut self, planned: &Planned) {
        let text = match planned.item {
            Some(item) => item.text(self.settings.sends),
            None => "*deleting  ".to_owned(),
        };
        self.item(&text, &planned.path, slash(planned));
    }

    fn item(&mut self, text: &str, path: &[u8], slash: &str) {
        self.close_line();
        print(&format!("{text} {}{slash}", shown(path)));
    }

    /// Returns the event with the differences, if there are any.
    fn with_item(&self, mut event: Value, planned: &Planned) -> Value {
        if let Some(item) = planned.item {
            event["item"] = json!(item.text(self.settings.sends));
        }
        event
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

/// Returns the word for an action.
const fn word(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Replace => "replace",
        Action::Keep => "keep",
        Action::Change => "change",
        Action::Delete => "delete",
        Action::Exclude => "exclude",
        Action::Link => "link",
        Action::Skip => "skip",
    }
}

/// Returns the slash after the path of a directory.
fn slash(planned: &Planned) -> &'static str {
    match planned.item {
        Some(item) if item.kind == ItemKind::Folder => "/",
        _ => "",
    }
}

/// Returns the event with its path.
fn about(mut event: Value, path: &[u8]) -> Value {
    if let Value::Object(event) = &mut event {
        put(event, "path", path);
    }
    event
}

fn line(motion: &CopyProgress, speed: f64, left: Option<f64>) -> String {
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
        "{percent:3} % of {}  {:.1} Mb/s  round {}, {loss:.2} % retransmitted{drops}{held}  {left} left",
        Size(motion.total),
        speed / 1e6,
        motion.round,
    )
}
