//! Resolution of target names, in a separate thread because the system's resolver blocks.
//!
//! A `Resolver` queues questions of the link's thread and sends each answer as a `Command`. If its
//! queue is full, the session is refused, so slow names delay only each other. `look_up` returns
//! the allowed addresses. A name that no rule could admit is not resolved, so a client cannot use
//! this gateway for DNS queries. Nothing is cached here.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::target::{Host, Target};
use lighthaul_slabs::SessionId;

use crate::command::{Command, CommandSender, NotResolved, ResolvedTarget};
use crate::local_address::is_local;
use crate::target_rules::TargetRules;

/// Sending side of the resolver's queue.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    queue: SyncSender<(SessionId, Target)>,
}

impl Resolver {
    /// Starts a resolver that answers to `commands`.
    pub(crate) fn start(
        allowed: Arc<TargetRules>,
        commands: CommandSender,
    ) -> std::io::Result<Self> {
        let (queue, questions) = sync_channel::<(SessionId, Target)>(QUESTIONS_MAX);
        thread::Builder::new()
            .name("resolver".into())
            .spawn(move || {
                for (session, target) in questions {
                    let found = look_up(&allowed, &target);
                    if !commands.send(Command::Resolved(session, found)) {
                        return;
                    }
                }
            })?;
        Ok(Self { queue })
    }

    /// Queues a question. Returns false if the queue is full.
    pub(crate) fn ask(&self, session: SessionId, target: Target) -> bool {
        self.queue.try_send((session, target)).is_ok()
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

/// Maximum number of queued names.
const QUESTIONS_MAX: usize = 1 << 12;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::command::command_channel;

    #[expect(clippy::unwrap_in_result, reason = "the test fails, not the look-up")]
    fn found(rules: &[&str], target: &str) -> ResolvedTarget {
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        look_up(&TargetRules::new(rules), &target.parse().unwrap())
    }

    #[test]
    fn every_queued_name_gets_an_answer() {
        let (commands, answers) = command_channel().unwrap();
        let rules = vec!["127.0.0.1:80".parse().unwrap()];
        let resolver = Resolver::start(Arc::new(TargetRules::new(rules)), commands).unwrap();
        let address: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let target = Target::try_from(address).unwrap();
        for nth in 0..100_u8 {
            assert!(resolver.ask(SessionId([nth; 16]), target.clone()), "{nth}");
        }
        for nth in 0..100_u8 {
            let answer = answers.queue.recv_timeout(Duration::from_secs(10));
            let Ok(Command::Resolved(session, found)) = answer else {
                panic!("{answer:?}");
            };
            assert_eq!((session, found), (SessionId([nth; 16]), Ok(vec![address])));
        }
    }

    #[test]
    fn full_queue_refuses_further_names() {
        let (queue, _questions) = sync_channel(1);
        let resolver = Resolver { queue };
        let target: Target = "127.0.0.1:80".parse().unwrap();
        assert!(resolver.ask(SessionId([1; 16]), target.clone()));
        assert!(!resolver.ask(SessionId([2; 16]), target));
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
