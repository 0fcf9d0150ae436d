//! Notes of the library, kept until Python fetches them for `logging`.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use lighthaul::{CopyEvent, Error, Event, User};

/// Level of a note, as a number of `logging`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// Note that is no fault.
    Info = 20,
    /// Fault that does not end the work.
    Warning = 30,
}

/// Notes that were not fetched; the oldest are dropped.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<VecDeque<(u8, String)>>);

impl Notes {
    /// Returns the notes, and clears them.
    pub(crate) fn take(&self) -> Vec<(u8, String)> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.drain(..).collect()
    }

    /// Keeps the note in an event of a copy, if any.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others have no sentence"
    )]
    pub(crate) fn see(&self, event: &Event) {
        match event {
            Event::Copy(CopyEvent::Warning(text)) | Event::Warning(text) => {
                self.keep(Level::Warning, text);
            }
            Event::Copy(CopyEvent::Diverted(text) | CopyEvent::Changed(text))
            | Event::Note(text) => self.keep(Level::Info, text),
            Event::Copy(CopyEvent::Chosen(protocol, why)) | Event::Routed { protocol, why } => {
                self.keep(Level::Info, &format!("{protocol}: {why}"));
            }
            Event::Retrying { error, pause, left } => {
                let text =
                    format!("{error}; trying again in {pause:.0?}, {left} attempts are left");
                self.keep(Level::Warning, &text);
            }
            _ => {}
        }
    }

    fn keep(&self, level: Level, text: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == NOTES_MAX {
            kept.pop_front();
        }
        kept.push_back((level as u8, text.to_owned()));
    }
}

impl User for Notes {
    fn tell(&self, note: &str) {
        self.keep(Level::Info, note);
    }

    fn agrees(&self, _question: &str) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Maximum number of notes that are kept.
const NOTES_MAX: usize = 1000;
