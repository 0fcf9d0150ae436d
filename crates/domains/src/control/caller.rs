//! One caller of the control socket: its question and the answer.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lighthaul_base::trc::{RATE_MAX, RATE_MIN};
use lighthaul_base::{Instant, Rate};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::peer_user::peer_user;
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    CorrelationId, DomainId, Outcome, PortId, Protection, Request, Signaling, strangers,
};
use tracing::debug;

use super::endpoint::Endpoint;
use super::message::{ANSWER_MAX, Answer, PathRequest, QUESTION_MAX, Question};
use super::path_id::PathId;
use super::place::Place;
use super::problem::Problem;
use super::view::{PathView, StatusView};
use crate::config::DomainConfig;
use crate::error::Error;
use crate::service::{Handle, ReservationStatus, Ticket};
use lighthaul_stargate::IdPrefix;

/// Service for one caller.
pub(super) struct Caller {
    pub(super) config: Arc<DomainConfig>,
    pub(super) handle: Handle,
    pub(super) stop: Arc<AtomicBool>,
    /// True if there are too many other callers.
    pub(super) is_full: bool,
    /// Callers that wait for a path.
    pub(super) waiting: Arc<AtomicUsize>,
}

impl Caller {
    /// Answers the question of a caller.
    pub(super) fn serve(&self, mut stream: UnixStream) {
        let mut requested = None;
        let answer = self.answer(&mut stream, &mut requested);
        let answer = answer.unwrap_or_else(Answer::Problem);
        let written = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_write_timeout(Some(WRITE)))
            .and_then(|()| stream.write_all(&line_of(&answer, ANSWER_MAX)));
        if let Err(error) = written {
            debug!(%error, "a caller of the control socket did not read its answer");
            if let (Some(id), Answer::Path(_)) = (requested, &answer) {
                self.give_up(id);
            }
        }
    }

    /// Returns the answer. Sets `requested` to the ID of a path that is requested.
    fn answer(
        &self,
        stream: &mut UnixStream,
        requested: &mut Option<CorrelationId>,
    ) -> Result<Answer, Problem> {
        if !is_own_user(stream) {
            return Err(Problem::OtherUser);
        }
        if self.is_full {
            return Err(Problem::Busy);
        }
        let line = read_line(stream).ok_or(Problem::Malformed)?;
        match Question::decode(&line).map_err(|_| Problem::Malformed)? {
            Question::Status => self.status().map(Answer::Status),
            Question::Find(digits) => self.look_up(&digits).map(Answer::Path),
            Question::Path(wanted) => {
                *requested = Some(wanted.id.0);
                let place = Place::take(&self.waiting, WAITING_MAX);
                let _place = place.ok_or(Problem::Busy)?;
                self.path(&wanted, false, stream).map(Answer::Path)
            }
            Question::Preview(wanted) => {
                let place = Place::take(&self.waiting, WAITING_MAX);
                let _place = place.ok_or(Problem::Busy)?;
                self.path(&wanted, true, stream).map(Answer::Path)
            }
            Question::Release(id) => self.release(id, stream).map(Answer::Path),
        }
    }

    fn status(&self) -> Result<StatusView, Problem> {
        let status = self.handle.status().map_err(|why| no_outcome(&why))?;
        Ok(StatusView::new(&self.config, &status))
    }

    /// Requests a path or its preview, and waits for the outcome.
    fn path(
        &self,
        wanted: &PathRequest,
        is_preview: bool,
        stream: &UnixStream,
    ) -> Result<PathView, Problem> {
        let request = self.request(wanted)?;
        let id = request.id;
        let ticket = if is_preview {
            self.handle.preview(request)
        } else {
            self.handle.request(request)
        };
        let ticket = ticket.map_err(|why| no_outcome(&why))?;
        match self.wait(&ticket, stream)? {
            Outcome::Offered(planned) => Ok(PathView::offered(&self.config, *planned)),
            Outcome::Committed { .. } | Outcome::LegLost { .. } if has_left(stream) => {
                self.give_up(id);
                Err(left())
            }
            Outcome::Committed { .. } | Outcome::LegLost { .. } => {
                let path = self.find(id)?.filter(PathView::is_held);
                path.ok_or_else(|| Problem::Over("it was released".to_owned()))
            }
            Outcome::Refused(why) => Err(Problem::Refused(why.to_string())),
            Outcome::Failed(why) => Err(Problem::Over(why.to_string())),
            Outcome::Released => Err(Problem::Over("it was released".to_owned())),
            Outcome::Ended => Err(Problem::Over("its vector has ended".to_owned())),
        }
    }

    /// Releases a path that this domain has requested.
    fn release(&self, id: PathId, stream: &UnixStream) -> Result<PathView, Problem> {
        let unknown = || Problem::UnknownPath(id.to_string());
        let path = self.find(id.0)?.ok_or_else(unknown)?;
        if path.source != self.config.me().0 {
            return Err(Problem::OtherSource {
                id: id.to_string(),
                source_domain: path.source,
            });
        }
        if !path.is_held() {
            return Err(unknown());
        }
        let ticket = self.handle.watch(id.0).map_err(|why| no_outcome(&why))?;
        self.handle.release(id.0).map_err(|why| no_outcome(&why))?;
        let ended = loop {
            match self.wait(&ticket, stream) {
                Ok(Outcome::LegLost { .. }) => {}
                ended => break ended,
            }
        };
        match ended {
            Ok(_) => {}
            Err(why @ Problem::NoOutcome(_)) => {
                // a path that has ended meanwhile is released as well
                if self.find(id.0)?.is_some_and(|path| path.is_held()) {
                    return Err(why);
                }
            }
            Err(why) => return Err(why),
        }
        Ok(PathView {
            stage: "released".to_owned(),
            ..path
        })
    }

    /// Returns the path of a request; among several attempts, the path that takes capacity.
    fn find(&self, id: CorrelationId) -> Result<Option<PathView>, Problem> {
        let found = self.handle.find(id.into());
        Ok(self.newest(&found.map_err(|why| no_outcome(&why))?))
    }

    /// Returns the only path whose ID begins with `digits`.
    fn look_up(&self, digits: &str) -> Result<PathView, Problem> {
        if digits.is_empty() {
            return Err(Problem::SeveralPaths(String::new()));
        }
        let unknown = || Problem::NoPath(digits.to_owned());
        let prefix = IdPrefix::parse(digits).ok_or_else(unknown)?;
        let found = self.handle.find(prefix).map_err(|why| no_outcome(&why))?;
        let ids = found.first().zip(found.last());
        if ids.is_some_and(|(first, last)| first.stored.key.id != last.stored.key.id) {
            return Err(Problem::SeveralPaths(digits.to_owned()));
        }
        self.newest(&found).ok_or_else(unknown)
    }

    /// Returns the path that takes capacity, or otherwise the newest path, since earlier attempts have the same ID.
    fn newest(&self, found: &[ReservationStatus]) -> Option<PathView> {
        let all = found.iter().map(|one| PathView::new(&self.config, one));
        all.max_by_key(|path| (path.is_held(), path.attempt))
    }

    /// Releases a request whose caller will not receive the outcome.
    fn give_up(&self, id: CorrelationId) {
        debug!(id = id.0, "a caller has left, and its path is released");
        if let Err(error) = self.handle.release(id) {
            debug!(%error, "cannot release the path of a caller that has left");
        }
    }

    /// Waits for the next outcome. The request is released if the caller has left, or if the service stops.
    fn wait(&self, ticket: &Ticket, stream: &UnixStream) -> Result<Outcome, Problem> {
        loop {
            if let Some(outcome) = ticket.wait(LOOK).map_err(|why| no_outcome(&why))? {
                return Ok(outcome);
            }
            if self.stop.load(Ordering::Acquire) {
                self.give_up(ticket.id);
                return Err(Problem::Stopping);
            }
            if has_left(stream) {
                self.give_up(ticket.id);
                return Err(left());
            }
        }
    }

    /// Checks a request of a caller.
    fn request(&self, wanted: &PathRequest) -> Result<Request, Problem> {
        let names = &self.config.endpoints;
        let from = Endpoint::find(&wanted.from, names)?;
        let to = Endpoint::find(&wanted.to, names)?;
        let me = self.config.me();
        if from.domain != me {
            return Err(Problem::Elsewhere {
                from: wanted.from.clone(),
                domain: from.domain.0,
                me: me.0,
            });
        }
        self.check_port(from)?;
        if to.domain == me {
            self.check_port(to)?;
        }
        let latest = Instant::from_nanos(wanted.latest);
        let domains = wanted.exclude_domains.iter().map(|one| DomainId(*one));
        let links = wanted.exclude_links.iter().map(|one| PortId(*one));
        let request = Request {
            id: wanted.id.0,
            ingress: from.port,
            to: to.domain,
            egress: to.port,
            demand: demand(wanted)?,
            from: Instant::from_nanos(wanted.earliest),
            till: latest,
            excludes: Excludes {
                domains: domains.collect(),
                links: links.collect(),
            },
            protection: if wanted.protect {
                Protection::Disjoint
            } else {
                Protection::None
            },
            signaling: if wanted.tree {
                Signaling::Tree
            } else {
                Signaling::Chain
            },
        };
        if wanted.tree {
            self.check_neighbors(&request)?;
        }
        Ok(request)
    }

    /// Checks that this domain can ask each domain of a tree.
    fn check_neighbors(&self, request: &Request) -> Result<(), Problem> {
        let strangers = strangers(&self.config.machine, &self.config.topology, request);
        let numbers: Vec<String> = strangers.iter().map(|one| one.0.to_string()).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        Err(Problem::NoNeighbors(numbers.join(", ")))
    }

    fn check_port(&self, at: Endpoint) -> Result<(), Problem> {
        let ports = &self.config.network.ports;
        if ports.contains_key(&at.port) {
            return Ok(());
        }
        let known = ports.keys().map(|port| port.0.to_string());
        let known: Vec<String> = known.take(PORTS_SHOWN).collect();
        Err(Problem::UnknownPort {
            domain: at.domain.0,
            port: at.port.0,
            known: known.join(", "),
        })
    }
}

fn demand(wanted: &PathRequest) -> Result<Demand, Problem> {
    let rate = |bps: Option<u64>, usual: Rate, name: &str| {
        let rate = bps.map_or(Some(usual), Rate::from_bps);
        let known = rate.filter(|rate| (RATE_MIN..=RATE_MAX).contains(rate));
        known.ok_or_else(|| Problem::OutOfRange(name.to_owned()))
    };
    let rate_max = rate(wanted.rate_max_bps, RATE_MAX, "the highest rate")?;
    let rate_min = rate(wanted.rate_min_bps, RATE_MIN, "the lowest rate")?;
    if rate_min > rate_max {
        return Err(Problem::OutOfRange("the lowest rate".to_owned()));
    }
    if wanted.bytes == 0 {
        return Err(Problem::OutOfRange("the number of bytes".to_owned()));
    }
    Ok(Demand {
        bytes: wanted.bytes,
        rate_max,
        rate_min,
    })
}

/// Returns true if the other side is a process of the same user, or of root (`SO_PEERCRED`).
fn is_own_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer_user(stream).is_some_and(|user| user == own || user == ROOT)
}

/// Reads the line of a question. Returns `None` if it is too long or comes too late.
fn read_line(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let clock = Clock::start();
    let mut line = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = (Instant::ZERO + READ).since(clock.now());
        if left.is_zero() || line.len() > QUESTION_MAX {
            return None;
        }
        stream.set_read_timeout(Some(left)).ok()?;
        let count = match stream.read(&mut part) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        line.extend_from_slice(&part[..count]);
        if count == 0 || line.ends_with(b"\n") {
            return Some(line);
        }
    }
}

/// Returns true if the caller has closed its end of the connection.
fn has_left(stream: &UnixStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let mut octet = [0];
    let mut stream = stream;
    match stream.read(&mut octet) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

fn no_outcome(why: &Error) -> Problem {
    if let Error::Stopped = why {
        return Problem::Stopping;
    }
    if let Error::NoOutcome(requests_max) = why {
        // the caller has no ID with which it could ask again
        return Problem::NoOutcome(format!(
            "the service reports no outcome of this path: it has stopped, the path has ended, or \
             requests_max = {requests_max} is reached; look for the path with `lighthaul path list`, or request another \
             one later"
        ));
    }
    Problem::NoOutcome(why.to_string())
}

fn left() -> Problem {
    Problem::Over("the caller has left".to_owned())
}

/// Returns the line of an answer, or of a problem if the answer exceeds `max` bytes.
fn line_of(answer: &Answer, max: usize) -> Vec<u8> {
    let line = answer.encode();
    if line.len() <= max {
        return line;
    }
    let why = format!(
        "the status of this domain has {} bytes, and an answer at most {max}; cancel paths by their whole IDs, or wait \
         until some have ended",
        line.len()
    );
    Answer::Problem(Problem::NoOutcome(why)).encode()
}

/// User ID of root.
const ROOT: u32 = 0;
/// Time for a question.
const READ: Duration = Duration::from_secs(10);
/// Time for an answer.
const WRITE: Duration = Duration::from_secs(10);
/// Time between two looks at a caller that waits.
const LOOK: Duration = Duration::from_millis(200);
/// Maximum number of ports that a message names.
const PORTS_SHOWN: usize = 20;

/// Maximum number of callers that wait for a path. It leaves places for others, which may cancel paths.
pub const WAITING_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_answer_is_a_problem_with_a_remedy() {
        let answer = Answer::Problem(Problem::Refused("x".repeat(1000)));
        assert_eq!(line_of(&answer, 2000), answer.encode());
        let line = line_of(&answer, 900);
        assert!(line.len() <= 900);
        let Ok(Answer::Problem(problem)) = Answer::decode(&line) else {
            panic!("{line:?}")
        };
        assert!(problem.to_string().contains("cancel paths"), "{problem}");
    }

    fn wanted(bytes: u64, rate_max_bps: Option<u64>, rate_min_bps: Option<u64>) -> PathRequest {
        PathRequest {
            id: PathId(CorrelationId(1)),
            from: "1:1".to_owned(),
            to: "2:1".to_owned(),
            bytes,
            rate_max_bps,
            rate_min_bps,
            earliest: 0,
            latest: 1,
            exclude_domains: Vec::new(),
            exclude_links: Vec::new(),
            protect: false,
            tree: false,
        }
    }

    #[test]
    fn demand_is_within_the_rates_that_vectors_have() {
        let (least, most) = (RATE_MIN.as_bps(), RATE_MAX.as_bps());
        let usual = demand(&wanted(1, None, None)).unwrap();
        assert_eq!((usual.rate_min, usual.rate_max), (RATE_MIN, RATE_MAX));
        let limits = demand(&wanted(7, Some(most), Some(least))).unwrap();
        assert_eq!(
            (limits.bytes, limits.rate_min, limits.rate_max),
            (7, RATE_MIN, RATE_MAX)
        );
        let equal = demand(&wanted(1, Some(5_000_000), Some(5_000_000))).unwrap();
        assert_eq!(equal.rate_min, equal.rate_max);
        for (bytes, rate_max, rate_min, what) in [
            (0, None, None, "the number of bytes"),
            (1, Some(0), None, "the highest rate"),
            (1, Some(most + 1), None, "the highest rate"),
            (1, Some(least - 1), None, "the highest rate"),
            (1, None, Some(0), "the lowest rate"),
            (1, None, Some(least - 1), "the lowest rate"),
            (1, None, Some(most + 1), "the lowest rate"),
            (1, Some(5_000_000), Some(5_000_001), "the lowest rate"),
        ] {
            let wrong = demand(&wanted(bytes, rate_max, rate_min)).unwrap_err();
            assert_eq!(wrong, Problem::OutOfRange(what.to_owned()));
        }
    }

    #[test]
    fn question_is_one_line_of_limited_length() {
        let read = |text: &[u8], ends: bool| {
            let (mut near, mut far) = UnixStream::pair().unwrap();
            far.set_write_timeout(Some(WRITE)).unwrap();
            let text = text.to_vec();
            let writer = std::thread::spawn(move || {
                // the reader may have given up
                far.write_all(&text).ok();
                (!ends).then_some(far)
            });
            let line = read_line(&mut near);
            drop(near);
            writer.join().unwrap();
            line
        };
        assert_eq!(read(b"one\n", false), Some(b"one\n".to_vec()));
        assert_eq!(read(b"one", true), Some(b"one".to_vec()));
        assert_eq!(read(b"", true), Some(Vec::new()));
        let long = vec![b'x'; QUESTION_MAX + 4097];
        assert_eq!(read(&long, false), None);
    }

    #[test]
    fn caller_has_left_once_its_end_is_closed() {
        let (near, far) = UnixStream::pair().unwrap();
        assert!(!has_left(&near));
        (&far).write_all(b"more").unwrap();
        assert!(!has_left(&near));
        drop(far);
        // it reads the rest first
        assert!((0..4).any(|_| has_left(&near)));
        assert!(is_own_user(&near));
    }

    #[test]
    fn error_about_a_lost_outcome_does_not_suggest_the_same_id() {
        let text = no_outcome(&Error::NoOutcome(7)).to_string();
        assert!(
            text.contains("requests_max = 7") && !text.contains("same ID"),
            "{text}"
        );
    }
}
