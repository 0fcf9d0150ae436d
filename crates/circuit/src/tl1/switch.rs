//! State of a switch over many connections.
//!
//! A connection is opened when a command needs one. The cross-connects of the switch are read after each login, before
//! any other command, and again after a command that was not completed. The list of the switch decides, not the
//! commands that were sent. A change that was interrupted is tried once more on a new connection. If no connection can
//! be opened, the rest of a call of the driver fails at once.

use std::time::Duration;

use lighthaul_base::escape::escape;
use lighthaul_io::host::clock::Clock;

use crate::tl1::command::Command;
use crate::tl1::config::SwitchConfig;
use crate::tl1::cross_connect::CrossConnect;
use crate::tl1::dialect::Entry;
use crate::tl1::fault::SwitchFault;
use crate::tl1::message::{Completion, Response};
use crate::tl1::session::{Session, check};
use lighthaul_io::host::stopping::StopLimit;

/// Result of an operation on a switch.
pub(super) type Result<T> = std::result::Result<T, SwitchFault>;

/// Switch and its cross-connects at the last reading.
#[derive(Debug)]
pub(super) struct Switch {
    clock: Clock,
    config: SwitchConfig,
    stop_limit: StopLimit,
    session: Option<Session>,
    found: Vec<CrossConnect>,
    /// Reason why this call of the driver does not try a connection again.
    unreachable: Option<SwitchFault>,
}

/// Failure of a connect.
#[derive(Debug)]
pub(super) struct NotConnected {
    pub(super) why: SwitchFault,
    /// True if this driver may have made, or may make, the cross-connect on the switch.
    pub(super) may_be_made: bool,
}

/// Effect of the commands that were sent.
struct Sent {
    may_be_made: bool,
}

impl Switch {
    pub(super) fn new(clock: Clock, config: SwitchConfig) -> Self {
        Self {
            clock,
            config,
            stop_limit: StopLimit::default(),
            session: None,
            found: Vec::new(),
            unreachable: None,
        }
    }

    pub(super) const fn config(&self) -> &SwitchConfig {
        &self.config
    }

    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    pub(super) const fn stop_limit(&self) -> &StopLimit {
        &self.stop_limit
    }

    /// Begins a call of the driver, in which a connection may be tried again.
    pub(super) fn begin(&mut self) {
        self.unreachable = None;
    }

    /// Opens a connection if none is open, and reads the cross-connects.
    pub(super) fn contact(&mut self) -> Result<()> {
        if let Some(why) = &self.unreachable {
            return Err(why.clone());
        }
        if self.session.is_some() {
            return Ok(());
        }
        let opened = Session::open(self.clock, &self.config, self.stop_limit.clone());
        let read = opened.and_then(|session| {
            self.session = Some(session);
            self.list(&self.config.dialect.list())
        });
        if let Err(why) = &read {
            self.session = None;
            self.unreachable = Some(why.clone());
        }
        read
    }

    /// Reads the cross-connects again.
    pub(super) fn read(&mut self) -> Result<()> {
        self.read_by(&self.config.dialect.list())
    }

    fn read_by(&mut self, command: &Command) -> Result<()> {
        if self.session.is_some() && self.unreachable.is_none() {
            match self.list(command) {
                Err(why) if why.is_contact() => {}
                read => return read,
            }
        }
        self.contact()
    }

    /// Returns the cross-connects of the last reading.
    pub(super) fn found(&self) -> &[CrossConnect] {
        &self.found
    }

    /// Returns true if the switch has the cross-connect.
    pub(super) fn has(&self, cross_connect: &CrossConnect) -> bool {
        self.found.contains(cross_connect)
    }

    /// Makes a cross-connect, unless this driver made it before. `is_ours` is true if a cross-connect that exists
    /// already is one of this driver; otherwise another client made it, and the result is [`SwitchFault::Taken`].
    pub(super) fn connect(
        &mut self,
        wanted: &CrossConnect,
        is_ours: bool,
    ) -> std::result::Result<(), NotConnected> {
        let mut sent = Sent {
            may_be_made: is_ours,
        };
        let made = self.connect_or_find(wanted, &mut sent);
        made.map_err(|why| NotConnected {
            why,
            may_be_made: sent.may_be_made,
        })
    }

    fn connect_or_find(&mut self, wanted: &CrossConnect, sent: &mut Sent) -> Result<()> {
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            self.contact()?;
            match self.is_present(wanted) {
                Ok(true) if sent.may_be_made => return Ok(()),
                Ok(true) => return Err(SwitchFault::Taken),
                Ok(false) => {}
                Err(why) if why.is_contact() => {
                    lost = Some(why);
                    continue;
                }
                Err(why) => return Err(why),
            }
            let command = self.config.dialect.connect(wanted);
            let answer = self.ask(&command);
            match answer.and_then(|response| check(&command, &response)) {
                Ok(()) => {
                    self.found.push(wanted.clone());
                    return Ok(());
                }
                Err(why) => {
                    // only a refusal is certain to have no effect
                    sent.may_be_made |= !matches!(why, SwitchFault::Denied { .. });
                    if why.is_contact() {
                        lost = Some(why);
                        continue;
                    }
                    let is_there = self.reaches(wanted, true, &why)?;
                    let is_made = sent.may_be_made && is_there;
                    return if is_made { Ok(()) } else { Err(why) };
                }
            }
        }
        self.contact()?;
        match lost {
            Some(_) if sent.may_be_made && self.has(wanted) => Ok(()),
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Removes a cross-connect of this driver. A missing one is removed already.
    pub(super) fn disconnect(&mut self, old: &CrossConnect) -> Result<()> {
        let command = self.config.dialect.disconnect(old);
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            self.contact()?;
            if !self.has(old) {
                return Ok(());
            }
            let answer = self.ask(&command);
            match answer.and_then(|response| check(&command, &response)) {
                Ok(()) => {
                    self.found.retain(|other| other != old);
                    return Ok(());
                }
                Err(why) if why.is_contact() => lost = Some(why),
                Err(why) => {
                    let is_gone = self.reaches(old, false, &why)?;
                    return if is_gone { Ok(()) } else { Err(why) };
                }
            }
        }
        self.contact()?;
        match lost {
            Some(why) if self.has(old) => Err(why),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the power of light in dBm at the output of a cross-connect.
    pub(super) fn power_dbm(&mut self, wanted: &CrossConnect) -> Result<f64> {
        let command = self.config.dialect.list_one(wanted).reading();
        let mut answer = self.entries(&command);
        if answer.as_ref().is_err_and(SwitchFault::is_contact) {
            self.contact()?;
            answer = self.entries(&command);
        }
        let mut entries = answer?.into_iter();
        let entry = entries.find(|entry| entry.cross_connect == *wanted);
        let power = entry.and_then(|entry| entry.power_dbm);
        power.ok_or_else(|| SwitchFault::NoPower(wanted.to().clone()))
    }

    /// Reads the cross-connects after a command that was not completed. Returns true if the one exists, or not, as it
    /// should. Waits for that only if the switch has delayed the command.
    fn reaches(
        &mut self,
        one: &CrossConnect,
        should_exist: bool,
        why: &SwitchFault,
    ) -> Result<bool> {
        let is_delayed = matches!(
            why,
            SwitchFault::Incomplete {
                completion: Completion::Delayed,
                ..
            }
        );
        let till = self.clock.now() + self.config.limits.list;
        let command = self.config.dialect.list().reading();
        loop {
            self.read_by(&command)?;
            if self.has(one) == should_exist {
                return Ok(true);
            }
            if !is_delayed || self.clock.now() >= till {
                return Ok(false);
            }
            let again = self.clock.now() + DELAY_PAUSE;
            if !self.stop_limit.pause(self.clock, again) {
                return Err(SwitchFault::Stopping("list of cross-connects".to_owned()));
            }
        }
    }

    /// Reports whether the switch has a cross-connect. If the last list lacks it, the switch is asked.
    fn is_present(&mut self, wanted: &CrossConnect) -> Result<bool> {
        if self.has(wanted) {
            return Ok(true);
        }
        let command = self.config.dialect.list_one(wanted);
        match self.entries(&command) {
            Ok(entries) => {
                let found = entries.into_iter().map(|entry| entry.cross_connect);
                self.found.extend(found.filter(|found| found == wanted));
                Ok(self.has(wanted))
            }
            Err(SwitchFault::Denied { .. }) => Ok(false),
            Err(why) => Err(why),
        }
    }

    /// Lists all cross-connects on the current connection.
    fn list(&mut self, command: &Command) -> Result<()> {
        let entries = self.entries(command)?;
        let mut found: Vec<CrossConnect> = entries
            .into_iter()
            .map(|entry| entry.cross_connect)
            .collect();
        found.sort();
        found.dedup();
        self.found = found;
        Ok(())
    }

    fn entries(&mut self, command: &Command) -> Result<Vec<Entry>> {
        let response = self.ask(command)?;
        check(command, &response)?;
        let mut entries = Vec::new();
        for line in &response.lines {
            let parsed = self.config.dialect.parse_line(line);
            let parsed =
                parsed.map_err(|_| SwitchFault::Entry(escape(line, SHOWN).into_owned()))?;
            entries.extend(parsed);
        }
        Ok(entries)
    }

    /// Sends a command on the current connection, and closes the connection if that fails.
    fn ask(&mut self, command: &Command) -> Result<Response> {
        let Some(session) = &mut self.session else {
            return Err(SwitchFault::Lost {
                command: command.title.clone(),
                why: "the connection was closed".to_owned(),
            });
        };
        let answer = session.command(command);
        if answer.as_ref().is_err_and(SwitchFault::is_contact) {
            self.session = None;
        }
        answer
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            session.close(&self.config.login.user);
        }
    }
}

/// Attempts for a change, each on a connection of its own.
const ATTEMPTS: usize = 2;
/// Pause before the effect of a delayed command is looked for again.
const DELAY_PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of a line in an error.
const SHOWN: usize = 200;
