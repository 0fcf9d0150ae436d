//! Result of each check, and of all.

use lighthaul_session::error::Code;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check<'a> {
    /// Name of the check.
    pub name: &'a str,
    /// `ok`, `warn` or `fail`.
    pub outcome: &'static str,
    /// Finding.
    pub text: &'a str,
    /// Remedy; empty if nothing has to be done.
    pub advice: &'a str,
}

/// Result of all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// `ok`, `warn` or `fail`.
    pub outcome: &'static str,
    /// Summary.
    pub text: &'static str,
    /// Code of the first failure.
    pub failed: Option<Code>,
}

/// Passes on the result of each check at once.
pub(super) struct Report<'a> {
    tell: &'a mut dyn FnMut(Check<'_>),
    failed: Option<Code>,
    warned: bool,
}

impl<'a> Report<'a> {
    /// Returns a report whose results go to `tell`.
    pub(super) fn new(tell: &'a mut dyn FnMut(Check<'_>)) -> Self {
        Self {
            tell,
            failed: None,
            warned: false,
        }
    }

    /// Reports that the check `name` passed.
    pub(super) fn fine(&mut self, name: &str, text: &str) {
        self.tell("ok", name, text, "");
    }

    /// Reports a warning of the check `name`.
    pub(super) fn warn(&mut self, name: &str, text: &str, advice: &str) {
        self.warned = true;
        self.tell("warn", name, text, advice);
    }

    /// Reports that the check `name` failed.
    pub(super) fn fail(&mut self, code: Code, name: &str, text: &str, advice: &str) {
        self.failed.get_or_insert(code);
        self.tell("fail", name, text, advice);
    }

    /// Returns the result of all checks.
    pub(super) const fn finish(self) -> Diagnosis {
        let (outcome, text) = match (self.failed, self.warned) {
            (Some(_), _) => ("fail", "copies will fail, or will be impaired"),
            (None, true) => ("warn", "copies work, but could be faster"),
            (None, false) => ("ok", "all checks passed"),
        };
        Diagnosis {
            outcome,
            text,
            failed: self.failed,
        }
    }

    fn tell(&mut self, outcome: &'static str, name: &str, text: &str, advice: &str) {
        (self.tell)(Check {
            name,
            outcome,
            text,
            advice,
        });
    }
}
