//! Resolution of target names, in separate threads because the system's resolver blocks.
//!
//! A `Resolver` queues questions of the link's thread and sends each answer as a `Command`. Up to
//! [`THREADS_MAX`] threads look names up, and end with the last question. Questions are asked by
//! turns of their [`QuestionShare`], and those of one share one after the other. So slow names
//! delay only their own share, until as many shares as threads have one. If the queue is full, the
//! session is refused. `look_up` returns the allowed addresses. A name that no rule could admit is not resolved, so a client cannot use this
//! gateway for DNS queries. Nothing is cached here.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::target::{Host, Target};
use lighthaul_io::host::clock::Clock;
use lighthaul_slabs::SessionId;

use crate::command::{Command, CommandSender, NotResolved, ResolvedTarget};
use crate::local_address::is_local;
use crate::target_rules::TargetRules;

/// Queue of questions about names.
#[derive(Clone, Debug)]
pub(crate) struct Resolver(Arc<Shared>);

struct Shared {
    look_up: Box<dyn Fn(&Target) -> ResolvedTarget + Send + Sync>,
    commands: CommandSender,
    clock: Clock,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Questions of each share that has any, or one that is being asked.
    shares: BTreeMap<QuestionShare, VecDeque<Question>>,
    /// Shares with questions of which none is being asked, in the order of their turns.
    turns: VecDeque<QuestionShare>,
    count: usize,
    threads: usize,
}

/// Question about the addresses of a target.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) session: SessionId,
    pub(crate) target: Target,
    /// Time after which nothing waits for the answer.
    pub(crate) until: Instant,
}

/// Party whose questions are asked one after the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QuestionShare {
    /// Host of a program.
    Host(Prefix),
    /// Last two labels of a name, for programs of another gateway, whose hosts are not known here.
    Zone(String),
}

impl QuestionShare {
    /// Returns the share of a target for programs of another gateway.
    pub(crate) fn of_target(target: &Target) -> Self {
        let name = target.host.to_string().to_ascii_lowercase();
        let name = name.trim_end_matches('.');
        let start = name.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
        Self::Zone(name[start..].to_owned())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// Creates a resolver that answers to `commands`. Times are those of `clock`.
    pub(crate) fn new(allowed: Arc<TargetRules>, commands: CommandSender, clock: Clock) -> Self {
        let look_up = move |target: &Target| look_up(&allowed, target);
        Self::with(Box::new(look_up), commands, clock)
    }

    fn with(
        look_up: Box<dyn Fn(&Target) -> ResolvedTarget + Send + Sync>,
        commands: CommandSender,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(Shared {
            look_up,
            commands,
            clock,
            queue: Mutex::default(),
        }))
    }

    /// Queues a question. Returns false if the queue or the share is full.
    pub(crate) fn ask(&self, share: QuestionShare, question: Question) -> bool {
        let mut queue = self.0.lock();
        if !queue.add(share, question) {
            return false;
        }
        if queue.threads >= THREADS_MAX || queue.turns.is_empty() {
            return true;
        }
        queue.threads += 1;
        drop(queue);
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("resolver".into());
        if thread.spawn(move || shared.run()).is_ok() {
            return true;
        }
        let mut queue = self.0.lock();
        queue.threads -= 1;
        // without any thread, no question of the queue is answered
        queue.threads > 0 || queue.clear()
    }
}

impl Shared {
    /// Answers questions until none is left.
    fn run(&self) {
        let mut queue = self.lock();
        while let Some((share, question)) = queue.next() {
            drop(queue);
            let is_late = self.clock.now() >= question.until;
            let is_heard = is_late || {
                let found = (self.look_up)(&question.target);
                let answer = Command::Resolved(question.session, found);
                self.commands.send(answer)
            };
            queue = self.lock();
            queue.end(share);
            if !is_heard {
                queue.clear();
            }
        }
        queue.threads -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn add(&mut self, share: QuestionShare, question: Question) -> bool {
        if self.count >= QUESTIONS_MAX {
            return false;
        }
        let is_new = !self.shares.contains_key(&share);
        let questions = self.shares.entry(share.clone()).or_default();
        if questions.len() >= SHARE_MAX {
            return false;
        }
        questions.push_back(question);
        self.count += 1;
        if is_new {
            self.turns.push_back(share);
        }
        true
    }

    /// Returns the next question, with its share, which has no other turn until [`Queue::end`].
    fn next(&mut self) -> Option<(QuestionShare, Question)> {
        let share = self.turns.pop_front()?;
        let question = self.shares.get_mut(&share)?.pop_front()?;
        self.count -= 1;
        Some((share, question))
    }

    /// Ends the turn of `share`.
    fn end(&mut self, share: QuestionShare) {
        if self.shares.get(&share).is_some_and(VecDeque::is_empty) {
            self.shares.remove(&share);
        } else if self.shares.contains_key(&share) {
            self.turns.push_back(share);
        }
    }

    /// Removes all questions. Returns false.
    fn clear(&mut self) -> bool {
        self.shares.clear();
        self.turns.clear();
        self.count = 0;
        false
    }
}

/// Returns the allowed addresses of a target.
pub(crate) fn look_up(allowed: &TargetRules, target: &Target) -> ResolvedTarget {
    let found: Vec<SocketAddr> = match &target.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, target.port)],
        Host::Name(_) if !allowed.admits_name(target) => {
            return Err(NotResolved::Refused(Refusal::NotAllowed));
        }
        Host::Name(name) => (name.as_str(), target.port)
            .to_socket_addrs()
            .map_err(|_| NotResolved::Refused(Refusal::Unresolved))?
            .collect(),
    };
    if found.is_empty() {
        return Err(NotResolved::Refused(Refusal::Unresolved));
    }
    // loopback is another host for each gateway
    let is_own = |ip: IpAddr| !ip.to_canonical().is_loopback() && is_local(ip);
    let has_own = found.iter().any(|one| is_own(one.ip()));
    let admitted = |address: &SocketAddr| allowed.admits_address(target, *address, is_local);
    let found: Vec<SocketAddr> = found.into_iter().filter(admitted).collect();
    match found.is_empty() {
        true if has_own => Err(NotResolved::OwnHost),
        true => Err(NotResolved::Refused(Refusal::NotAllowed)),
        false => Ok(found),
    }
}

/// Maximum number of names that are looked up at a time.
const THREADS_MAX: usize = 8;
/// Maximum number of queued names.
const QUESTIONS_MAX: usize = 1 << 12;
/// Maximum number of queued names of one share.
const SHARE_MAX: usize = QUESTIONS_MAX / 2;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use super::*;
    use crate::command::{CommandQueue, command_channel};

    #[expect(clippy::unwrap_in_result, reason = "the test fails, not the look-up")]
    fn found(rules: &[&str], target: &str) -> ResolvedTarget {
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        look_up(&TargetRules::new(rules), &target.parse().unwrap())
    }

    /// Returns a question with this number. Its session waits until the clock has `seconds`.
    fn question(number: u16, target: &str, seconds: u64) -> Question {
        Question {
            session: SessionId(u128::from(number).to_be_bytes()),
            target: target.parse().unwrap(),
            until: Instant::ZERO + Duration::from_secs(seconds),
        }
    }

    fn number(session: SessionId) -> u16 {
        u128::from_be_bytes(session.0) as u16
    }

    fn host(last: u8) -> QuestionShare {
        QuestionShare::Host(Prefix::host([10, 0, 0, last].into()))
    }

    /// A resolver for which names with "slow" get no answer before the sender of the returned channel is dropped, and
    /// the numbers of the answers.
    struct Slow {
        resolver: Resolver,
        answers: CommandQueue,
        blocked: Option<Sender<()>>,
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl Slow {
        fn new() -> Self {
            let (commands, answers) = command_channel().unwrap();
            let (blocked, ends) = channel::<()>();
            let (ends, asked) = (Mutex::new(ends), Arc::<Mutex<Vec<String>>>::default());
            let names = Arc::clone(&asked);
            let look_up = move |target: &Target| {
                let name = target.host.to_string();
                names.lock().unwrap().push(name.clone());
                if name.contains("slow") {
                    ends.lock().unwrap().recv().ok();
                }
                Err(NotResolved::Refused(Refusal::Unresolved))
            };
            Self {
                resolver: Resolver::with(Box::new(look_up), commands, Clock::start()),
                answers,
                blocked: Some(blocked),
                asked,
            }
        }

        fn answered(&self) -> u16 {
            let answer = self.answers.queue.recv_timeout(Duration::from_mins(1));
            let Ok(Command::Resolved(session, _)) = answer else {
                panic!("{answer:?}");
            };
            number(session)
        }
    }

    #[test]
    fn every_queued_name_gets_an_answer() {
        let (commands, answers) = command_channel().unwrap();
        let rules = vec!["127.0.0.1:80".parse().unwrap()];
        let rules = Arc::new(TargetRules::new(rules));
        let resolver = Resolver::new(rules, commands, Clock::start());
        let address: SocketAddr = "127.0.0.1:80".parse().unwrap();
        for nth in 0..100 {
            let question = question(nth, "127.0.0.1:80", 600);
            assert!(resolver.ask(host((nth % 3) as u8), question), "{nth}");
        }
        let mut numbers = Vec::new();
        for nth in 0..100 {
            let answer = answers.queue.recv_timeout(Duration::from_mins(1));
            let Ok(Command::Resolved(session, found)) = answer else {
                panic!("{nth}: {answer:?}");
            };
            assert_eq!(found, Ok(vec![address]));
            numbers.push(number(session));
        }
        // those of a share keep their order
        numbers.sort_by_key(|nth| nth % 3);
        assert!(numbers.is_sorted_by_key(|nth| (nth % 3, *nth)));
        assert_eq!(numbers.len(), 100);
    }

    #[test]
    fn slow_name_delays_only_its_own_share() {
        let mut test = Slow::new();
        // many names of one share, and of as many shares as leave one thread
        for nth in 0..100 {
            assert!(
                test.resolver
                    .ask(host(0), question(nth, "slow.example:80", 600))
            );
        }
        for last in 1..THREADS_MAX as u8 - 1 {
            assert!(
                test.resolver
                    .ask(host(last), question(200, "slow.example:80", 600))
            );
        }
        for nth in 300..320 {
            assert!(
                test.resolver
                    .ask(host(99), question(nth, "quick.example:80", 600))
            );
        }
        assert!((0..20).map(|_| test.answered()).eq(300..320));
        let asked = test.asked.lock().unwrap().clone();
        let slow = asked.iter().filter(|name| name.contains("slow")).count();
        assert!(slow < THREADS_MAX, "one for each share: {slow}");
        test.blocked = None;
        for _ in 0..100 + THREADS_MAX - 2 {
            assert!(test.answered() <= 200);
        }
    }

    #[test]
    fn question_that_nothing_waits_for_is_not_asked() {
        let test = Slow::new();
        assert!(
            test.resolver
                .ask(host(0), question(0, "late.example:80", 0))
        );
        assert!(
            test.resolver
                .ask(host(0), question(1, "quick.example:80", 600))
        );
        assert_eq!(test.answered(), 1);
        assert_eq!(*test.asked.lock().unwrap(), ["quick.example"]);
    }

    #[test]
    fn full_share_or_queue_refuses_further_names() {
        let mut queue = Queue::default();
        let mut add = |last| queue.add(host(last), question(0, "127.0.0.1:80", 600));
        assert_eq!((0..QUESTIONS_MAX).filter(|_| add(1)).count(), SHARE_MAX);
        assert_eq!((0..QUESTIONS_MAX).filter(|_| add(2)).count(), SHARE_MAX);
        assert!(!add(3));
        assert!(queue.next().is_some());
        assert!(queue.add(host(3), question(0, "127.0.0.1:80", 600)));
        // the turn of the first share has not ended
        let turns: Vec<_> = (0..2)
            .filter_map(|_| queue.next())
            .map(|(share, _)| share)
            .collect();
        assert_eq!(turns, [host(2), host(3)]);
        assert!(queue.next().is_none());
        queue.end(host(3));
        queue.end(host(1));
        assert_eq!(queue.next().map(|(share, _)| share), Some(host(1)));
        assert!(!queue.shares.contains_key(&host(3)));
    }

    #[test]
    fn names_of_one_zone_have_one_share() {
        let zone = |target: &str| QuestionShare::of_target(&target.parse().unwrap());
        assert_eq!(zone("a.b.Example.org:80"), zone("c.example.org:81"));
        assert_ne!(zone("example.org:80"), zone("example.net:80"));
        assert_eq!(
            zone("localhost:80"),
            QuestionShare::Zone("localhost".to_owned())
        );
    }

    #[test]
    fn name_is_admitted_by_its_resolved_addresses() {
        assert_eq!(
            found(&["localhost:80"], "localhost:80"),
            Err(NotResolved::Refused(Refusal::NotAllowed))
        );
        assert_eq!(
            found(&["*:*"], "localhost:80"),
            Err(NotResolved::Refused(Refusal::NotAllowed))
        );
        let address = "127.0.0.1:80".parse().unwrap();
        assert_eq!(found(&["127.0.0.1:80"], "localhost:80"), Ok(vec![address]));
        assert_eq!(
            found(&["10.0.0.0/8:80"], "localhost:80"),
            Err(NotResolved::Refused(Refusal::NotAllowed))
        );
        assert_eq!(
            found(&["10.0.0.0/8:80"], "absent.invalid:81"),
            Err(NotResolved::Refused(Refusal::NotAllowed))
        );
        assert_eq!(
            found(&["10.0.0.0/8:80"], "absent.invalid:80"),
            Err(NotResolved::Refused(Refusal::Unresolved))
        );
    }

    #[test]
    fn address_without_a_rule_is_refused() {
        let why = Err(NotResolved::Refused(Refusal::NotAllowed));
        assert_eq!(found(&[], "192.0.2.1:80"), why);
        assert_eq!(found(&["192.0.2.1:81"], "192.0.2.1:80"), why);
        assert_eq!(found(&["*:*"], "169.254.169.254:80"), why);
    }

    #[test]
    fn interface_addresses_of_this_host_need_an_exact_rule() {
        let own = nix::ifaddrs::getifaddrs().unwrap();
        for ip in own.filter_map(|one| Some(one.address?.as_sockaddr_in()?.ip())) {
            let target = format!("{ip}:80");
            let why = if ip.is_loopback() {
                NotResolved::Refused(Refusal::NotAllowed)
            } else {
                NotResolved::OwnHost
            };
            assert_eq!(found(&["*:*", "0.0.0.0/0:*"], &target), Err(why));
            assert_eq!(found(&[], &target), Err(why));
            assert_eq!(found(&[&target], &target).unwrap().len(), 1);
        }
    }
}
