//! Switch that speaks TL1 over TCP, and that misbehaves on request.
//!
//! It has its own reading of the three dialects, so that an error in the driver's does not hide itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rng};
use lighthaul_io::host::clock::unix_nanos;

use crate::replies::{Fault, PAUSE, deny, reply, response, send};

/// Vendor that is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    Calient,
    Glimmerglass,
    Cisco,
}

/// Cross-connect as the switch keeps it, with true for both directions.
pub(crate) type Patch = (String, String, bool);

/// State in which the driver could be killed: its record, and the cross-connects of the switch.
pub(crate) type Moment = (Vec<u8>, BTreeSet<Patch>);

/// Emulated switch. Clones share it.
#[derive(Clone)]
pub(crate) struct Emulator {
    vendor: Vendor,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    patches: BTreeSet<Patch>,
    /// Cross-connects that the test made as another client.
    foreign: BTreeSet<Patch>,
    /// Misbehavior for the next commands with this beginning.
    faults: VecDeque<(&'static str, Fault)>,
    /// Random misbehavior for one command in this number.
    chaos: Option<(Rng, u64)>,
    /// Power of light at output ports.
    power: BTreeMap<String, &'static str>,
    /// Number of cross-connects from which on light passes.
    lit_from: usize,
    /// Commands of each connection, with their arrivals by the wall clock.
    log: Vec<Vec<(Instant, String)>>,
    /// Time for each command.
    pace: Duration,
    /// Record of the driver, and its content with the cross-connects before and after each command.
    watched: Option<PathBuf>,
    moments: Vec<Moment>,
    is_down: bool,
    /// Number of connections that are closed at once.
    refusals: u64,
}

impl Emulator {
    pub(crate) fn start(vendor: Vendor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let emulator = Self {
            vendor,
            address: listener.local_addr().unwrap(),
            state: Arc::new(Mutex::new(State {
                patches: BTreeSet::new(),
                foreign: BTreeSet::new(),
                faults: VecDeque::new(),
                chaos: None,
                power: BTreeMap::new(),
                lit_from: 0,
                log: Vec::new(),
                pace: Duration::ZERO,
                watched: None,
                moments: Vec::new(),
                is_down: false,
                refusals: 0,
            })),
        };
        let server = emulator.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        emulator
    }

    pub(crate) const fn vendor(&self) -> Vendor {
        self.vendor
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Misbehaves at the next command that begins with `verb`.
    pub(crate) fn misbehave(&self, verb: &'static str, fault: Fault) {
        self.state().faults.push_back((verb, fault));
    }

    /// Removes all misbehavior.
    pub(crate) fn calm(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.refusals = 0;
    }

    /// Misbehaves at one command in `one_in`, by chance.
    pub(crate) fn set_chaos(&self, chaos: Option<(Rng, u64)>) {
        let mut state = self.state();
        state.chaos = chaos;
        state.refusals = 0;
    }

    /// Closes new connections at once.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    pub(crate) fn set_power(&self, port: &str, power: &'static str) {
        self.state().power.insert(port.to_owned(), power);
    }

    /// Lets no light pass until the switch has this number of cross-connects.
    pub(crate) fn light_from(&self, cross_connects: usize) {
        self.state().lit_from = cross_connects;
    }

    /// Makes a cross-connect as another client. Returns false if its ports are in use.
    pub(crate) fn make_foreign(&self, patch: &Patch) -> bool {
        let mut state = self.state();
        let is_made = state.make(patch);
        if is_made {
            state.foreign.insert(patch.clone());
        }
        is_made
    }

    /// Removes a cross-connect by hand.
    pub(crate) fn cut(&self, patch: &Patch) {
        let mut state = self.state();
        state.patches.remove(patch);
        state.foreign.remove(patch);
    }

    pub(crate) fn foreign(&self) -> BTreeSet<Patch> {
        self.state().foreign.clone()
    }

    pub(crate) fn patches(&self) -> BTreeSet<Patch> {
        self.state().patches.clone()
    }

    /// Returns the cross-connects that the driver made.
    pub(crate) fn ours(&self) -> BTreeSet<Patch> {
        let state = self.state();
        state.patches.difference(&state.foreign).cloned().collect()
    }

    /// Collects the states in which the driver could be killed, until they are taken.
    pub(crate) fn watch(&self, record: &Path) {
        self.state().watched = Some(record.to_owned());
    }

    pub(crate) fn take_moments(&self) -> Vec<Moment> {
        let mut state = self.state();
        state.watched = None;
        std::mem::take(&mut state.moments)
    }

    pub(crate) fn set_patches(&self, patches: BTreeSet<Patch>) {
        self.state().patches = patches;
    }

    /// Returns true if misbehavior is left.
    pub(crate) fn has_faults(&self) -> bool {
        !self.state().faults.is_empty()
    }

    /// Returns the commands of each connection.
    pub(crate) fn log(&self) -> Vec<Vec<String>> {
        let plain = |one: &Vec<(Instant, String)>| {
            let commands = one.iter().map(|(_, command)| command.clone());
            commands.collect()
        };
        self.state().log.iter().map(plain).collect()
    }

    /// Takes this time for each command, as a switch whose mirrors move.
    pub(crate) fn set_pace(&self, pace: Duration) {
        self.state().pace = pace;
    }

    /// Returns the arrivals of the commands that make or remove cross-connects, by the wall clock.
    pub(crate) fn change_arrivals(&self) -> Vec<Instant> {
        let is_change = |command: &str| command.starts_with("ENT-") || command.starts_with("DLT-");
        let state = self.state();
        let changes = state.log.iter().flatten();
        let changes = changes.filter(|(_, command)| is_change(command));
        changes.map(|(at, _)| *at).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        if self.state().refuses() {
            return;
        }
        let nth = {
            let mut state = self.state();
            state.log.push(Vec::new());
            state.log.len() - 1
        };
        let mut is_in = false;
        let mut text = String::new();
        let mut octets = [0; 512];
        let _ = stream.write_all(b"Welcome to the \"emulator\r\n<");
        loop {
            while let Some(end) = text.find(';') {
                let command: String = text.drain(..=end).collect();
                let command = command.trim_end_matches(';').to_owned();
                let arrived = Instant::from_nanos(unix_nanos());
                self.state().log[nth].push((arrived, command.clone()));
                let pace = self.state().pace;
                if !pace.is_zero() {
                    thread::sleep(pace);
                }
                if self.answer(&mut stream, &command, &mut is_in).is_none() {
                    let _ = stream.shutdown(Shutdown::Both);
                    return;
                }
            }
            match stream.read(&mut octets) {
                Ok(count) if count > 0 => {
                    text.push_str(std::str::from_utf8(&octets[..count]).unwrap());
                }
                _ => return,
            }
        }
    }

    /// Answers a command. Returns nothing to close the connection.
    fn answer(&self, stream: &mut TcpStream, command: &str, is_in: &mut bool) -> Option<()> {
        let parts: Vec<&str> = command.split(':').collect();
        let tag = parts.get(3).copied().unwrap_or_default();
        let verb = parts[0];
        if verb == "ACT-USER" {
            *is_in = (parts[2], parts.get(5)) == ("ada", Some(&"secret"));
            let completion = if *is_in { "COMPLD" } else { "DENY" };
            let lines = vec![
                "\"ada:ada,2\"".to_owned(),
                "/* Notice; private */".to_owned(),
            ];
            return send(stream, &response(tag, completion, &lines, 99, ""));
        }
        if !*is_in {
            return send(stream, &deny(tag, "PICC", "not logged in"));
        }
        let fault = self.state().next_fault(verb);
        if let Some(Fault::Outage(_)) = &fault {
            self.state().refusals = 1;
        }
        if fault == Some(Fault::Duel)
            && verb.starts_with("ENT")
            && let Some((from, to)) = parts[2].split_once(',')
        {
            let is_both = self.vendor != Vendor::Glimmerglass;
            self.make_foreign(&(from.to_owned(), to.to_owned(), is_both));
        }
        if let Some(Fault::Rival(patch)) = &fault {
            assert!(self.make_foreign(patch), "the ports of a rival are free");
        }
        let has_effect = !matches!(
            fault,
            Some(
                Fault::Busy
                    | Fault::NoGood
                    | Fault::Deny
                    | Fault::Partial(false)
                    | Fault::Silence(false)
                    | Fault::Hangup(false)
                    | Fault::Outage(false)
                    | Fault::Delay
            )
        );
        self.state().note_moment();
        let result = if has_effect {
            self.execute(&parts)
        } else {
            Ok(Vec::new())
        };
        self.state().note_moment();
        if fault == Some(Fault::Delay) {
            let (emulator, command) = (self.clone(), command.to_owned());
            thread::spawn(move || {
                thread::sleep(PAUSE);
                let parts: Vec<&str> = command.split(':').collect();
                let _ = emulator.execute(&parts);
            });
        }
        reply(stream, tag, result, fault)
    }

    /// Executes a command, and returns the lines of its response or the reason of a refusal.
    fn execute(&self, parts: &[&str]) -> Result<Vec<String>, String> {
        let verb = parts[0];
        let aid = parts.get(2).copied().unwrap_or_default();
        let payload = parts.get(5).copied().unwrap_or_default();
        if verb == "INH-MSG-ALL" || verb == "CANC-USER" {
            return Ok(Vec::new());
        }
        let (action, _) = verb.split_once('-').ok_or("bad verb")?;
        let expected = match self.vendor {
            Vendor::Calient => format!("{action}-CRS"),
            Vendor::Glimmerglass => format!("{action}-CRS-FIBER"),
            Vendor::Cisco => format!("{action}-CRS-STS3C"),
        };
        match action {
            _ if verb != expected => Err(format!("unknown command {verb}")),
            "ENT" => self.enter(aid, payload, parts.len()),
            "DLT" => self.delete(aid, payload),
            "RTRV" => self.retrieve(aid, payload),
            _ => Err(format!("unknown command {verb}")),
        }
    }

    fn enter(&self, aid: &str, payload: &str, parts: usize) -> Result<Vec<String>, String> {
        let (from, to) = aid.split_once(',').ok_or("bad ports")?;
        let is_both = match (self.vendor, payload) {
            (Vendor::Calient, ",1WAY") | (Vendor::Cisco, "1WAY") => false,
            (Vendor::Calient, ",2WAY") | (Vendor::Cisco, "2WAY") => true,
            (Vendor::Glimmerglass, "") if parts == 4 => false,
            (Vendor::Calient | Vendor::Glimmerglass | Vendor::Cisco, _) => {
                return Err(format!("bad payload {payload}"));
            }
        };
        let patch = (from.to_owned(), to.to_owned(), is_both);
        let made = self.state().make(&patch);
        made.then(Vec::new).ok_or_else(|| "port in use".to_owned())
    }

    fn delete(&self, aid: &str, payload: &str) -> Result<Vec<String>, String> {
        let is_it = |patch: &&Patch| match self.vendor {
            Vendor::Calient => aid.is_empty() && id(patch) == payload,
            Vendor::Glimmerglass | Vendor::Cisco => format!("{},{}", patch.0, patch.1) == aid,
        };
        let mut state = self.state();
        let found = state.patches.iter().find(is_it).cloned();
        state.patches.remove(&found.ok_or("no such connection")?);
        Ok(Vec::new())
    }

    fn retrieve(&self, aid: &str, payload: &str) -> Result<Vec<String>, String> {
        let is_full = match self.vendor {
            Vendor::Calient => aid == "," && payload == ",,",
            Vendor::Glimmerglass | Vendor::Cisco => aid == "ALL",
        };
        let is_chosen = |patch: &&Patch| match self.vendor {
            Vendor::Calient => aid.is_empty() && payload == format!(",{}", id(patch)),
            Vendor::Glimmerglass | Vendor::Cisco => patch.0 == aid,
        };
        let state = self.state();
        let chosen = state.patches.iter();
        let chosen = chosen.filter(|patch| is_full || is_chosen(patch));
        let mut lines: Vec<String> = chosen.map(|patch| self.line(&state, patch)).collect();
        if self.vendor == Vendor::Glimmerglass && lines.len() < 4 {
            let unused =
                "IPORTID=10999,IPORTNAME=,OPORTID=0,OPORTNAME=,CONNSTATE=single,OUTPWR=0.000";
            lines.push(format!("\"GGN:{unused}\""));
        } else if lines.is_empty() && !is_full {
            return Err("no such connection".to_owned());
        }
        Ok(lines)
    }

    /// Returns the line of a cross-connect in a list.
    fn line(&self, state: &State, patch: &Patch) -> String {
        let (from, to, is_both) = patch;
        let way = if *is_both { "2WAY" } else { "1WAY" };
        match self.vendor {
            Vendor::Calient => format!(
                "\"{name}:SRCPORT={from},DSTPORT={to},GRPNAME=LAB,CONNNAME={name},CONNTYPE={way},AS=IS,OS=IS,OC=OK\"",
                name = id(patch)
            ),
            Vendor::Glimmerglass => {
                let is_lit = state.patches.len() >= state.lit_from;
                let power = if is_lit { "-6.762" } else { "-40.000" };
                let power = state.power.get(to).copied().unwrap_or(power);
                format!(
                    "\"GGN:IPORTID={from},IPORTNAME=,OPORTID={to},OPORTNAME=,CONNID=0,CONNSTATE=steady,CONNCAUSE=none,\
                     INPWR=-5.873,OUTPWR={power},PWRLOSS=0.889\""
                )
            }
            Vendor::Cisco => format!("\"{from},{to}:{way},STS3C\""),
        }
    }
}

impl State {
    fn note_moment(&mut self) {
        if let Some(path) = &self.watched {
            let record = fs::read(path).unwrap_or_default();
            self.moments.push((record, self.patches.clone()));
        }
    }

    fn refuses(&mut self) -> bool {
        let is_refused = self.is_down || self.refusals > 0;
        self.refusals = self.refusals.saturating_sub(1);
        is_refused
    }

    fn make(&mut self, patch: &Patch) -> bool {
        let inputs = |patch: &Patch| [Some(patch.0.clone()), patch.2.then(|| patch.1.clone())];
        let outputs = |patch: &Patch| [Some(patch.1.clone()), patch.2.then(|| patch.0.clone())];
        let meets = |one: [Option<String>; 2], other: [Option<String>; 2]| {
            one.iter()
                .flatten()
                .any(|port| other.iter().flatten().any(|its| its == port))
        };
        let is_used = self.patches.iter().any(|other| {
            meets(inputs(patch), inputs(other)) || meets(outputs(patch), outputs(other))
        });
        !is_used && self.patches.insert(patch.clone())
    }

    fn next_fault(&mut self, verb: &str) -> Option<Fault> {
        if let Some((wanted, _)) = self.faults.front()
            && verb.starts_with(wanted)
        {
            return self.faults.pop_front().map(|(_, fault)| fault);
        }
        let (rng, one_in) = self.chaos.as_mut()?;
        if rng.below(*one_in) > 0 {
            return None;
        }
        Some(match rng.below(17) {
            0 => Fault::InProgress,
            1 => Fault::Busy,
            2 => Fault::NoGood,
            3 => Fault::Deny,
            4 => Fault::Partial(false),
            5 => Fault::Partial(true),
            6 => Fault::Alarms,
            7 => Fault::Hangup(false),
            8 => Fault::Hangup(true),
            9 => Fault::CutLine,
            10 => Fault::CutResponse,
            11 => Fault::AllRight,
            12 => Fault::Outage(false),
            13 => Fault::Outage(true),
            14 | 15 => Fault::Duel,
            _ => Fault::EndlessLine,
        })
    }
}

fn id((from, to, is_both): &Patch) -> String {
    format!("{from}{}{to}", if *is_both { '-' } else { '>' })
}
