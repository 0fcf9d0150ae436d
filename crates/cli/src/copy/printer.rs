//! Output of a copy: progress, a summary, or JSON events.
//!
//! [`Printer`] receives every event of a copy, through all of its attempts, and decides if it is
//! shown. Progress and warnings go to standard error; results, events and hashes go to standard
//! output. With `--json`, each event has an entry in `schema/events.v1.json`.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use lighthaul::{Event, Plan};
use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_base::{Instant, Size, counted};
use lighthaul_copy::watch::{CopyEvent, CopyProgress, CurrentFile, Start, Summary};
use lighthaul_files::hash::FileHashes;
use lighthaul_files::item::ItemKind;
use lighthaul_files::options::{Action, Planned};
use lighthaul_grammar::output::Progress;
use lighthaul_io::host::clock::{Clock, cpu_seconds};
use lighthaul_monitor::rates::Rates;
use lighthaul_monitor::sample::host::{Sample, Sampler};
use lighthaul_session::error::Error;
use serde_json::{Value, json};

use crate::copy::bookings;
use crate::copy::progress::{Form, plain};
use crate::copy::summary::{Proof, event, host_load, limit, limits, sentence, stats};
use crate::domains::events;
use crate::output::name::{put, shown};
use crate::output::print::{hash_line, print, print_json, print_octets, say};
use lighthaul_copy::pace::Pace;

/// Amount of output.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub(crate) struct Settings {
    pub(crate) progress: Progress,
    pub(crate) json: bool,
    pub(crate) stats: bool,
    pub(crate) quiet: bool,
    /// Proof of equality that a successful copy gives.
    pub(crate) proof: Proof,
    /// Dry runs show reasons.
    pub(crate) reasons: bool,
    /// Shows the chosen protocol and later changes, with reasons.
    pub(crate) explain: bool,
    /// Shows the path of each entry that was changed.
    pub(crate) verbose: bool,
    /// Shows the differences of each entry.
    pub(crate) items: bool,
    /// True if this side sends the data.
    pub(crate) sends: bool,
    /// True if the user gave a rate.
    pub(crate) asks_rate: bool,
}

/// Interval of a bar.
const BAR_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of events, and of lines that the user asked for.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval of lines that the user did not ask for.
const AUTO_INTERVAL: Duration = Duration::from_secs(10);

/// Shows the progress and the end of a transfer.
// fields: state of what was printed
#[derive(Debug)]
pub(crate) struct Printer {
    settings: Settings,
    bar: bool,
    /// Interval of lines of progress that stay.
    plain: Option<Duration>,
    clock: Clock,
    /// Time of the last report.
    shown_at: Instant,
    /// State at the last report.
    shown: CopyProgress,
    plain_at: Instant,
    start: Option<Start>,
    /// Counters of this host at the time when data began to move.
    sampled: Option<Sample>,
    pace: Pace,
    /// Files that move now.
    files: Vec<CurrentFile>,
    /// Lines of progress on the terminal.
    open_lines: usize,
    /// Counts of a dry run.
    plan: Plan,
    /// Number of paths that were removed at the target.
    removed: u64,
}

impl Printer {
    pub(crate) fn new(settings: Settings) -> Self {
        let is_shown = !settings.json && !settings.quiet;
        // such a terminal cannot move its cursor
        let is_dumb = || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let bar = match settings.progress {
            Progress::Auto => is_shown && stderr().is_terminal() && !is_dumb(),
            Progress::Bar => true,
            Progress::Plain | Progress::None => false,
        };
        let plain = match settings.progress {
            Progress::Auto if is_shown && !bar => Some(AUTO_INTERVAL),
            Progress::Plain => Some(INTERVAL),
            Progress::Auto | Progress::Bar | Progress::None => None,
        };
        Self {
            settings,
            bar,
            plain,
            clock: Clock::start(),
            shown_at: Instant::ZERO,
            plain_at: Instant::ZERO,
            shown: CopyProgress::default(),
            start: None,
            sampled: None,
            pace: Pace::default(),
            files: Vec::new(),
            open_lines: 0,
            plan: Plan::default(),
            removed: 0,
        }
    }

    /// Shows one event of the copy.
    pub(crate) fn observe(&mut self, event: Event) {
        match event {
            Event::Copy(sight) => self.watch(sight),
            Event::Routed { protocol, why } => {
                self.emit_choice(&protocol, &why);
                self.note(&format!("lighthaul: {why}"));
            }
            Event::Retrying { error, pause, left } => {
                self.try_again();
                let (pause, left) = (pause.as_secs(), counted(left.into(), "retry", "retries"));
                self.warn(&format!("{error}; retrying in {pause} s ({left} left)"));
            }
            Event::Booked(booked) => {
                let (event, text) = bookings::booked(&booked);
                self.tell(event, &text);
            }
            Event::Released(released) => {
                let (event, text) = bookings::released(&released);
                self.tell(event, &text);
            }
            Event::PathReserved(path) => {
                self.tell(events::event(&path), &bookings::reserved(&path));
            }
            Event::PathReleased(path) => {
                let text = format!("path {} is released", path.id);
                self.tell(events::event(&path), &text);
            }
            Event::Warning(text) => self.warn(&text),
            Event::Note(text) => self.note(&format!("lighthaul: {text}")),
            _ => {}
        }
    }

    /// Records that an attempt has failed and another follows.
    fn try_again(&mut self) {
        self.shown = CopyProgress::default();
        self.pace = Pace::default();
        self.plan = Plan::default();
    }

    /// Shows one event of an attempt.
    fn watch(&mut self, sight: CopyEvent) {
        if let CopyEvent::Planned(planned) = &sight {
            self.plan.add(planned);
        }
        match sight {
            CopyEvent::Started(start) => self.started(start),
            CopyEvent::Moving(motion) => self.moving(motion),
            CopyEvent::Current(files) => self.files = files,
            CopyEvent::Round { number, packets } => {
                self.emit(|| json!({"type": "round", "round": number, "packets": packets}));
            }
            CopyEvent::Diverted(why) => self.warn(&why),
            CopyEvent::Chosen(protocol, why) => {
                self.emit_choice(&protocol, &why);
                self.explain(&why);
            }
            CopyEvent::Changed(why) => {
                self.emit(|| json!({"type": "change", "why": why}));
                self.explain(&why);
            }
            CopyEvent::Planned(planned) => self.planned(&planned),
            CopyEvent::Done(planned) => self.done(&planned),
            CopyEvent::Hashed(hashed) => self.hashed(&hashed),
            CopyEvent::Removed(paths) => paths.iter().for_each(|path| self.removed(path)),
            // failures are printed at the end
            CopyEvent::CircuitReleased | CopyEvent::Failed(_) => {}
            CopyEvent::Warning(text) => self.warn(&text),
        }
    }

    fn emit_choice(&self, protocol: &str, why: &str) {
        self.emit(|| json!({"type": "choice", "protocol": protocol, "why": why}));
    }

    /// Shows why a protocol or rate was chosen or changed, if the user asked for it.
    fn explain(&mut self, why: &str) {
        if self.settings.explain {
            self.note(&format!("lighthaul: {why}"));
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
        let now = self.clock.now();
        let sampler = Sampler::new(self.clock);
        self.sampled.get_or_insert_with(|| sampler.sample());
        (self.shown_at, self.plain_at) = (now, now);
        self.emit(|| {
            json!({
                "type": "start", "protocol": start.protocol, "rate_bps": start.rate_bps, "packet_bytes": start.packet_len,
                "cipher": start.cipher, "digest": start.digest, "startup_s": start.start_up.as_secs_f64(),
            })
        });
        self.start = Some(start);
    }

    fn moving(&mut self, motion: CopyProgress) {
        let now = self.clock.now();
        let since = now.since(self.shown_at);
        if since < if self.bar { BAR_INTERVAL } else { INTERVAL } {
            return;
        }
        let moved = motion.done.saturating_sub(self.shown.done);
        self.pace.add(moved, since, &motion);
        self.shown_at = now;
        self.shown = motion;
        let speed = moved as f64 * 8.0 / since.as_secs_f64();
        self.emit(|| {
            json!({
                "type": "progress", "bytes": motion.done, "bytes_total": motion.total,
                "bps": speed, "round": motion.round, "packets_sent": motion.sent,
                "packets_resent": motion.resent, "buffer_drops": motion.buffer_drops,
                "held": motion.held, "left_s": self.pace.left(),
            })
        });
        if self.bar {
            self.draw(&motion);
        } else if let Some(interval) = self.plain
            && now.since(self.plain_at) >= interval
        {
            self.plain_at = now;
            say(&plain(&motion, &self.pace));
        }
    }

    /// Draws the lines of progress over the previous lines.
    fn draw(&mut self, motion: &CopyProgress) {
        let lines = Form::of_terminal().lines(motion, &self.pace, &self.files);
        self.close_line();
        write!(stderr(), "{}", lines.join("\n")).ok();
        stderr().flush().ok();
        self.open_lines = lines.len();
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
        let start = self.start.as_ref();
        let proof = match self.settings.proof {
            // a store that compares no digests, or only those of some objects
            Proof::All | Proof::Moved
                if summary.unproven > 0 || start.is_some_and(|start| start.digest == "none") =>
            {
                Proof::Lengths
            }
            Proof::All | Proof::Moved | Proof::Lengths | Proof::None | Proof::DryRun => {
                self.settings.proof
            }
        };
        let after = Sampler::new(self.clock).sample();
        let rates = Rates::between(self.sampled.as_ref().unwrap_or(&after), &after);
        let host = host_load(summary, (&rates, self.settings.sends), cpu);
        let limit = limit(summary, (start, self.settings.asks_rate), &host);
        let done = (self.removed, &self.plan);
        self.emit(|| event(summary, proof, done, (limit, cpu)));
        if self.settings.quiet || self.settings.json {
            return;
        }
        say(&sentence(summary, proof, done));
        if let Some(line) = limits(summary, start, limit) {
            say(&line);
        }
        if self.settings.stats {
            for line in stats(summary, self.start.as_ref(), cpu) {
                say(&line);
            }
        }
    }

    /// Prints a note that is not a fault.
    fn tell(&mut self, event: Value, text: &str) {
        self.emit(|| event);
        self.note(&format!("lighthaul: {text}"));
    }

    /// Reports a fault that does not end the copy.
    fn warn(&mut self, text: &str) {
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
                print_octets(&hash_line(digits, &hashed.path));
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
        if self.settings.items && !self.settings.reasons {
            if is_change && !self.settings.json {
                self.itemized(planned);
            }
        } else if !self.settings.json {
            self.close_line();
            let why = if self.settings.reasons || planned.action == Action::Change {
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

    /// Returns the event with its differences, if any.
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

    /// Removes the lines of progress.
    fn close_line(&mut self) {
        match std::mem::take(&mut self.open_lines) {
            0 => {}
            1 => write!(stderr(), "\r\x1b[J").unwrap_or_default(),
            lines => write!(stderr(), "\r\x1b[{}A\x1b[J", lines - 1).unwrap_or_default(),
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

/// Returns the event with the path added.
fn about(mut event: Value, path: &[u8]) -> Value {
    if let Value::Object(event) = &mut event {
        put(event, "path", path);
    }
    event
}
