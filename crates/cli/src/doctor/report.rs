//! A line for each step: how it went, and what to do.

use lighthaul_session::error::Code;
use serde_json::{Value, json};

use crate::output::name::shown;
use crate::output::print::{print, print_json};

/// Tells of steps as they are taken.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    /// Code of the first failure.
    failed: Option<Code>,
    warned: bool,
}

impl Report {
    pub(crate) const fn new(json: bool) -> Self {
        Self {
            json,
            failed: None,
            warned: false,
        }
    }

    /// The step `name` went well.
    pub(crate) fn fine(&self, name: &str, text: &str) {
        self.tell("ok", name, text, "");
    }

    /// The step `name` went well, but better is possible.
    pub(crate) fn warn(&mut self, name: &str, text: &str, advice: &str) {
        self.warned = true;
        self.tell("warn", name, text, advice);
    }

    /// The step `name` failed.
    pub(crate) fn fail(&mut self, code: Code, name: &str, text: &str, advice: &str) {
        self.failed.get_or_insert(code);
        self.tell("fail", name, text, advice);
    }

    /// Says how it went as a whole; answers the exit status.
    pub(crate) fn finish(self) -> u8 {
        let (outcome, text) = match (self.failed, self.warned) {
            (Some(_), _) => ("fail", "copies will not work, or not as they should"),
            (None, true) => ("warn", "copies work, but could do better"),
            (None, false) => ("ok", "nothing is in the way"),
        };
        let code = self.failed.map_or(0, |code| code as u8);
        if self.json {
            let event = json!({
                "v": 1, "type": "diagnosis", "outcome": outcome, "code": code, "text": text,
            });
            print_json(&event);
        } else {
            print(&format!("{outcome:<5} {text}"));
        }
        code
    }

    fn tell(&self, outcome: &str, name: &str, text: &str, advice: &str) {
        let (text, advice) = (shown(text.as_bytes()), shown(advice.as_bytes()));
        if self.json {
            let advice = (!advice.is_empty()).then_some(advice);
            let event: Value = json!({
                "v": 1, "type": "check", "name": name, "outcome": outcome, "text": text,
                "advice": advice,
            });
            return print_json(&event);
        }
        let advice = if advice.is_empty() {
            advice
        } else {
            format!("; {advice}")
        };
        print(&format!("{outcome:<5} {name:<8} {text}{advice}"));
    }
}
