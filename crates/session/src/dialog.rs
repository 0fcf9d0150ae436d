//! Dialog: messages of a session on one of its streams.
//!
//! Most messages travel on stream 0 ([`Session::dialog`]). The two sides explore their path on a stream of its own
//! ([`Session::path_dialog`]). Other threads exchange the list of a copy at the same time.

use std::sync::Arc;
use std::time::Duration;

use lighthaul_io::control::Stream;

use crate::error::Error;
use crate::halt::Halt;
use crate::session::{ANSWER_TIMEOUT, Session};
use crate::topic::Topic;

/// Stream of the dialog about the path.
const PATH: u16 = 2;
/// Interval at which a waiting side checks whether the dialog is halted.
const HALT_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Messages on one stream of a session.
#[derive(Debug)]
pub struct Dialog<'a> {
    /// The session.
    pub session: &'a Session,
    stream: StreamOf<'a>,
    /// Halt of this dialog alone.
    halt: Arc<Halt>,
}

#[derive(Debug)]
enum StreamOf<'a> {
    Session(&'a Stream),
    Own(Stream),
}

impl Session {
    /// Returns the dialog on stream 0.
    pub fn dialog(&self) -> Dialog<'_> {
        Dialog {
            session: self,
            stream: StreamOf::Session(&self.stream),
            halt: Arc::default(),
        }
    }

    /// Returns the dialog about the path, which `halt` ends. It may be opened once.
    pub fn path_dialog(&self, halt: Arc<Halt>) -> Result<Dialog<'_>, Error> {
        Ok(Dialog {
            session: self,
            stream: StreamOf::Own(self.control.open(PATH)?),
            halt,
        })
    }
}

impl Dialog<'_> {
    fn stream(&self) -> &Stream {
        match &self.stream {
            StreamOf::Session(stream) => stream,
            StreamOf::Own(stream) => stream,
        }
    }

    /// Fails if the session or this dialog was halted.
    pub fn check(&self) -> Result<(), Error> {
        self.session.halt.check()?;
        self.halt.check()
    }

    /// Sends `message`.
    pub fn say<M: Topic>(&self, message: &M) -> Result<(), Error> {
        Session::say_on(self.stream(), message)
    }

    /// Returns the next message of topic `M` that has arrived, if any.
    pub fn heard<M: Topic>(&self) -> Result<Option<M>, Error> {
        self.session.heard_on(self.stream())
    }

    /// Waits for the next message, which must be of topic `M`.
    pub fn hear<M: Topic>(&self) -> Result<M, Error> {
        self.hear_for(ANSWER_TIMEOUT)
    }

    /// Waits at most `patience` for the next message, unless the session or this dialog is halted.
    pub fn hear_for<M: Topic>(&self, patience: Duration) -> Result<M, Error> {
        let check = (HALT_CHECK_INTERVAL, || self.check());
        self.session
            .hear_on(self.stream(), patience, check, |_| Ok(()))
    }
}
