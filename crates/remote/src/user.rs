//! User of a connection, who is informed about new keys and installed programs, and is asked for permission.

use std::fmt::Debug;
use std::io::{IsTerminal, stderr, stdin};

use lighthaul_session::error::Error;

use crate::notice::say;
use crate::question::is_confirmed;

/// User of a connection.
pub trait User: Debug + Send + Sync {
    /// Takes a note, which is a sentence without a fault.
    fn tell(&self, note: &str);

    /// Asks a question. Returns true if the answer is yes.
    fn agrees(&self, question: &str) -> Result<bool, Error>;
}

/// No user: notes are dropped, and no question is agreed to.
#[derive(Clone, Copy, Debug)]
pub struct Unattended;

impl User for Unattended {
    fn tell(&self, _note: &str) {}

    fn agrees(&self, _question: &str) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Person at the terminal of this process. Without a terminal, no question is agreed to.
#[derive(Clone, Copy, Debug)]
pub struct Terminal;

impl User for Terminal {
    fn tell(&self, note: &str) {
        say(&format!("lighthaul: {note}"));
    }

    fn agrees(&self, question: &str) -> Result<bool, Error> {
        if !stdin().is_terminal() || !stderr().is_terminal() {
            return Ok(false);
        }
        is_confirmed(&format!("{question} [y/N] "))
    }
}
