//! One TCP connection to a switch: login, and one command at a time.
//!
//! `open` connects, logs in and asks for no alarms and events. `command` sends a command and waits for the answer with
//! its tag. Answers to other commands and autonomous messages are skipped. A command that the switch has acknowledged
//! as in progress has the time limit of a list. After a fault of the connection, a session must be dropped.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::escape::escape;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};

use crate::tl1::command::Command;
use crate::tl1::config::{Limits, SwitchConfig};
use crate::tl1::connecting::connect;
use crate::tl1::dialect::Dialect;
use crate::tl1::fault::SwitchFault;
use crate::tl1::message::{
    Acknowledgement, Completion, Decoder, MESSAGE_MAX, Malformed, Message, Response,
};
use lighthaul_io::host::stopping::{self, StopLimit};

/// Connection on which the login succeeded.
#[derive(Debug)]
pub(super) struct Session {
    clock: Clock,
    stream: TcpStream,
    decoder: Decoder,
    limits: Limits,
    stop_limit: StopLimit,
    last_tag: u32,
}

/// Command that waits for its answer.
struct Pending<'a> {
    title: &'a str,
    tag: String,
    is_query: bool,
    is_reading: bool,
    started: Instant,
    limit: Duration,
    /// Tag of an answer to another command.
    other: Option<String>,
}

/// Result of an acknowledgement or of a response.
enum Answer {
    Response(Response),
    Busy,
}

impl Session {
    /// Connects and logs in.
    pub(super) fn open(
        clock: Clock,
        config: &SwitchConfig,
        stop_limit: StopLimit,
    ) -> Result<Self, SwitchFault> {
        let place = (config.host.as_str(), config.port);
        let stream = connect(clock, place, config.limits.command, &stop_limit)?;
        let mut session = Self {
            clock,
            stream,
            decoder: Decoder::default(),
            limits: config.limits,
            stop_limit,
            last_tag: 0,
        };
        let login = Dialect::login(&config.login.user, config.login.password.text());
        let response = session.command(&login)?;
        check(&login, &response)?;
        match session.command(&Dialect::inhibit()) {
            Err(why) if why.is_contact() => Err(why),
            // some users may not inhibit messages, which are skipped anyway
            Ok(_) | Err(_) => Ok(session),
        }
    }

    /// Sends a command and returns its answer, also if the answer reports a failure.
    pub(super) fn command(&mut self, command: &Command) -> Result<Response, SwitchFault> {
        let started = self.clock.now();
        loop {
            let mut pending = Pending {
                title: &command.title,
                tag: self.next_tag(),
                is_query: command.is_query,
                is_reading: command.is_reading,
                started,
                limit: if command.is_list {
                    self.limits.list
                } else {
                    self.limits.command
                },
                other: None,
            };
            self.send(&pending, command.text(&pending.tag).as_bytes())?;
            match self.answer(&mut pending)? {
                Answer::Response(response) => return Ok(response),
                Answer::Busy => {
                    let again = self.clock.now() + BUSY_PAUSE;
                    if again >= pending.till() {
                        return Err(pending.not_accepted(Acknowledgement::RepeatLater));
                    }
                    if !self.stop_limit.pause(self.clock, again) {
                        return Err(SwitchFault::Stopping(pending.title.to_owned()));
                    }
                }
            }
        }
    }

    /// Logs out. The switch ends the session anyway when the connection is closed.
    pub(super) fn close(mut self, user: &str) {
        self.limits.command = self.limits.command.min(LOGOUT_LIMIT);
        let _ = self.command(&Dialect::logout(user));
    }

    fn next_tag(&mut self) -> String {
        self.last_tag = self.last_tag % TAG_MAX + 1;
        self.last_tag.to_string()
    }

    fn send(&mut self, pending: &Pending<'_>, mut left: &[u8]) -> Result<(), SwitchFault> {
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(count) => left = &left[count..],
                Err(why) if is_early(&why) => {
                    let watch = Watch {
                        write: true,
                        ..Watch::read(-1)
                    };
                    self.wait(pending, watch)?;
                }
                Err(why) => return Err(pending.lost(&why)),
            }
        }
        Ok(())
    }

    /// Waits for the answer, and joins its parts.
    fn answer(&mut self, pending: &mut Pending<'_>) -> Result<Answer, SwitchFault> {
        let (mut lines, mut notes) = (Vec::new(), Vec::new());
        let mut size = 0;
        loop {
            while let Some(message) = self.decoder.pop() {
                match message {
                    Message::Acknowledgement { tag, code } if tag == pending.tag => match code {
                        // no progress: neither it nor a busy switch may delay a stop
                        Acknowledgement::InProgress => {
                            pending.limit = pending.limit.max(self.limits.list);
                        }
                        Acknowledgement::AllRight if !pending.is_query => {
                            self.stop_limit.renew();
                            return Ok(Answer::Response(empty_response(tag)));
                        }
                        Acknowledgement::RepeatLater => return Ok(Answer::Busy),
                        Acknowledgement::AllRight
                        | Acknowledgement::PrintoutFollows
                        | Acknowledgement::NoAcknowledgement
                        | Acknowledgement::NoGood => return Err(pending.not_accepted(code)),
                    },
                    Message::Response(part) if part.tag == pending.tag => {
                        if !pending.is_reading {
                            self.stop_limit.renew();
                        }
                        size += part.octets();
                        if size > MESSAGE_MAX {
                            return Err(pending.malformed(Malformed::Message));
                        }
                        lines.extend(part.lines);
                        notes.extend(part.notes);
                        if !part.has_more && part.completion != Completion::Retrieved {
                            return Ok(Answer::Response(Response {
                                lines,
                                notes,
                                ..part
                            }));
                        }
                    }
                    Message::Acknowledgement { tag, .. }
                    | Message::Response(Response { tag, .. }) => {
                        pending.other = Some(escape(&tag, SHOWN).into_owned());
                    }
                    Message::Autonomous(_) => {}
                }
            }
            self.receive(pending)?;
        }
    }

    /// Reads the next octets.
    fn receive(&mut self, pending: &Pending<'_>) -> Result<(), SwitchFault> {
        let mut octets = [0; 1 << 14];
        loop {
            if self.clock.now() >= pending.till() {
                return Err(pending.silent());
            }
            match self.stream.read(&mut octets) {
                Ok(0) => {
                    let why = self.decoder.end().err();
                    let why = why.map_or_else(
                        || "the switch closed it".to_owned(),
                        |cut| format!("the switch closed it, and {cut}"),
                    );
                    return Err(pending.lost(&why));
                }
                Ok(count) => {
                    let taken = self.decoder.push(&octets[..count]);
                    return taken.map_err(|why| pending.malformed(why));
                }
                Err(why) if is_early(&why) => {
                    let watch = Watch::read(self.stream.as_raw_fd());
                    self.wait(pending, watch)?;
                }
                Err(why) => return Err(pending.lost(&why)),
            }
        }
    }

    /// Waits until the connection is ready, or until the time limit of the command.
    fn wait(&self, pending: &Pending<'_>, watch: Watch) -> Result<(), SwitchFault> {
        if self.clock.now() >= pending.till() {
            return Err(pending.silent());
        }
        if self.stop_limit.is_overdue() {
            return Err(SwitchFault::Stopping(pending.title.to_owned()));
        }
        let fd = self.stream.as_raw_fd();
        let till = stopping::next_look(self.clock, pending.till());
        let waited = wait(self.clock, &mut [Watch { fd, ..watch }], till);
        waited.map_err(|why| pending.lost(&why))
    }
}

impl Pending<'_> {
    fn till(&self) -> Instant {
        self.started + self.limit
    }

    fn lost(&self, why: &impl ToString) -> SwitchFault {
        SwitchFault::Lost {
            command: self.title.to_owned(),
            why: why.to_string(),
        }
    }

    fn silent(&self) -> SwitchFault {
        SwitchFault::Silent {
            command: self.title.to_owned(),
            limit: self.limit,
            other: self.other.clone(),
        }
    }

    fn malformed(&self, why: Malformed) -> SwitchFault {
        SwitchFault::Malformed {
            command: self.title.to_owned(),
            why,
        }
    }

    fn not_accepted(&self, code: Acknowledgement) -> SwitchFault {
        SwitchFault::NotAccepted {
            command: self.title.to_owned(),
            code,
        }
    }
}

/// Refuses a command that was not completed, with the reason of the switch.
pub(super) fn check(command: &Command, response: &Response) -> Result<(), SwitchFault> {
    let title = command.title.clone();
    match response.completion {
        Completion::Completed => Ok(()),
        Completion::Denied => {
            let (code, text) = response.reason();
            Err(SwitchFault::Denied {
                command: title,
                code,
                text,
            })
        }
        completion @ (Completion::Partial | Completion::Delayed | Completion::Retrieved) => {
            Err(SwitchFault::Incomplete {
                command: title,
                completion,
            })
        }
    }
}

/// Returns an empty response, for a command without a response.
const fn empty_response(tag: String) -> Response {
    Response {
        tag,
        completion: Completion::Completed,
        lines: Vec::new(),
        notes: Vec::new(),
        has_more: false,
    }
}

fn is_early(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Highest tag. A switch accepts tags of six characters.
const TAG_MAX: u32 = 999_999;
/// Pause before a command is repeated for a busy switch.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of a logout.
const LOGOUT_LIMIT: Duration = Duration::from_secs(1);
/// Maximum length of a tag in an error.
const SHOWN: usize = 40;
