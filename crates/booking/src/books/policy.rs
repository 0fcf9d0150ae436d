//! Policies: limits on the bookings of an identity with role `user`.
//!
//! A [`Policy`] limits destinations, links, interfaces, total rate, end and amount of bookings.
//! Each `check_*` function compares one property of a booking with its limit. It fails with a
//! [`PolicyError`] that names the owner and the limit. For operators only the [`Quota`] applies,
//! which `Usage` checks. A policy sees one booking, so the caller adds up the rates.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::prefix::Prefix;
use lighthaul_booking_client::json::{FlowAt, Timestamp};

use super::job_place::JobPlace;
use crate::error::PolicyError;
use crate::error::limit_error::RateRule;

/// Limits of one identity. The default permits bookings, but no packets in circuits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Permitted destinations of packets in circuits; none by default.
    pub prefixes: Vec<Prefix>,
    /// Permitted links; `None` permits all.
    pub links: Option<Vec<String>>,
    /// Permitted interfaces of circuits; `None` permits all.
    pub interfaces: Option<Vec<String>>,
    /// Maximum total rate of all reservations of the identity at any time.
    pub rate_max: Option<Rate>,
    /// Latest end of a reservation, from now on.
    pub ahead: Option<Duration>,
    /// Maximum number of reservations, and of bytes in each window.
    pub quota: Quota,
    /// Places that jobs may copy from; none by default.
    pub job_sources: Vec<JobPlace>,
    /// Places that jobs may copy to; none by default.
    pub job_targets: Vec<JobPlace>,
}

/// Amounts that an owner may book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Maximum number of reservations at one time.
    pub reservations: usize,
    /// Maximum number of bytes in each window.
    pub bytes: u64,
    /// Maximum time in each hour for which a user may hold a whole link without a commit; `None` for the usual limit of
    /// users, and for no limit of requesters of NSI.
    pub uncommitted: Option<Duration>,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            reservations: 1000,
            bytes: u64::MAX,
            uncommitted: None,
        }
    }
}

impl From<Quota> for Policy {
    /// Returns a policy with a quota and no other limits.
    fn from(quota: Quota) -> Self {
        Self {
            quota,
            ..Self::default()
        }
    }
}

impl Policy {
    /// Returns a policy that permits nothing.
    pub fn nothing() -> Self {
        Self {
            prefixes: Vec::new(),
            links: Some(Vec::new()),
            interfaces: Some(Vec::new()),
            rate_max: None,
            ahead: None,
            quota: Quota {
                reservations: 0,
                bytes: 0,
                uncommitted: Some(Duration::ZERO),
            },
            job_sources: Vec::new(),
            job_targets: Vec::new(),
        }
    }

    /// Refuses places of a job that are not permitted.
    pub fn check_job(
        &self,
        owner: &str,
        sources: &[JobPlace],
        target: &JobPlace,
    ) -> Result<(), PolicyError> {
        let refused = |place: &JobPlace, rules: &[JobPlace]| {
            let permits = rules.iter().any(|rule| rule.permits(place, owner));
            (!permits).then(|| rules.iter().map(ToString::to_string).collect())
        };
        let wrong = |action, place: &JobPlace, permitted| PolicyError::JobPlace {
            owner: owner.to_owned(),
            action,
            place: place.to_string(),
            permitted,
        };
        for source in sources {
            if let Some(permitted) = refused(source, &self.job_sources) {
                return Err(wrong("copy from", source, permitted));
            }
        }
        match refused(target, &self.job_targets) {
            Some(permitted) => Err(wrong("copy to", target, permitted)),
            None => Ok(()),
        }
    }

    /// Refuses a circuit at another interface, or of packets to other destinations.
    pub(super) fn check_flow(&self, owner: &str, flow: &FlowAt) -> Result<(), PolicyError> {
        let interface = &flow.interface;
        if let Some(interfaces) = &self.interfaces
            && !interfaces.contains(interface)
        {
            return Err(PolicyError::Interface {
                owner: owner.to_owned(),
                interface: interface.clone(),
                permitted: interfaces.clone(),
            });
        }
        let target = flow.packets.target();
        let is_own = |target: Prefix| self.prefixes.iter().any(|own| own.covers(target));
        if target.is_some_and(is_own) {
            return Ok(());
        }
        let (owner, packets) = (owner.to_owned(), flow.packets);
        if self.prefixes.is_empty() {
            return Err(PolicyError::NoPrefixes { owner, packets });
        }
        Err(PolicyError::Packets {
            owner,
            packets,
            permitted: self.prefixes.clone(),
        })
    }

    /// Refuses links that are not permitted.
    pub(super) fn check_links(&self, owner: &str, path: &[String]) -> Result<(), PolicyError> {
        let Some(links) = &self.links else {
            return Ok(());
        };
        match path.iter().find(|link| !links.contains(link)) {
            None => Ok(()),
            Some(link) => Err(PolicyError::Link {
                owner: owner.to_owned(),
                link: link.clone(),
                permitted: links.clone(),
            }),
        }
    }

    /// Refuses an end that is too late.
    pub(super) fn check_end(
        &self,
        owner: &str,
        now: Timestamp,
        end: Timestamp,
    ) -> Result<(), PolicyError> {
        let last = self
            .ahead
            .map(|ahead| Timestamp::from(now.instant() + ahead));
        match last.filter(|last| end > *last) {
            None => Ok(()),
            Some(last) => {
                let owner = owner.to_owned();
                Err(PolicyError::End { owner, end, last })
            }
        }
    }

    /// Refuses a total rate above the maximum.
    pub(super) fn check_rate(
        &self,
        owner: &str,
        most: u64,
        others: u64,
    ) -> Result<(), PolicyError> {
        let Some(limit) = self.rate_max.filter(|limit| most > limit.as_bps()) else {
            return Ok(());
        };
        let left = limit.as_bps().saturating_sub(others);
        Err(PolicyError::Rate {
            limit: rate_rule(owner, limit),
            left: Rate::from_bps(left),
        })
    }

    /// Returns the limit on rates, if there is one.
    pub(super) fn rate_rule(&self, owner: &str) -> Option<RateRule> {
        self.rate_max.map(|limit| rate_rule(owner, limit))
    }
}

fn rate_rule(owner: &str, rate: Rate) -> RateRule {
    RateRule {
        owner: owner.to_owned(),
        rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy {
            prefixes: vec!["10.1.0.0/16".parse().unwrap()],
            links: Some(vec!["a-b".to_owned()]),
            interfaces: Some(vec!["eth1".to_owned()]),
            rate_max: Some(Rate::from_mbps(100)),
            ahead: Some(Duration::from_hours(1)),
            quota: Quota::default(),
            ..Policy::default()
        }
    }

    fn flow(interface: &str, packets: &str) -> FlowAt {
        FlowAt {
            interface: interface.to_owned(),
            packets: packets.parse().unwrap(),
        }
    }

    #[test]
    fn packets_outside_the_permitted_prefixes_are_refused() {
        let may = |packets: &str| policy().check_flow("ada", &flow("eth1", packets));
        for own in ["udp 10.1.0.2 5000", "10.1.0.0/16", "tcp 10.1.255.255"] {
            assert!(may(own).is_ok(), "{own}");
        }
        for foreign in [
            "all",
            "udp",
            "udp 5000",
            "10.0.0.0/8",
            "10.2.0.1",
            "udp ::1",
            "0.0.0.0/0",
        ] {
            let why = may(foreign).unwrap_err().to_string();
            assert!(
                why.contains("only to: 10.1.0.0/16; name an address"),
                "{foreign}: {why}"
            );
        }
        let nobody = Policy::default();
        let why = nobody.check_flow("ada", &flow("eth1", "10.1.0.2"));
        assert!(why.unwrap_err().to_string().contains("for no address"));
    }

    #[test]
    fn interfaces_and_links_that_are_not_permitted_are_refused() {
        let why = policy().check_flow("ada", &flow("eth2", "10.1.0.2"));
        let why = why.unwrap_err().to_string();
        assert!(why.contains("no circuit at eth2, only at: eth1"), "{why}");
        let links = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(ToString::to_string).collect();
            policy().check_links("ada", &path)
        };
        assert!(links(&["a-b"]).is_ok());
        let why = links(&["a-b", "b-c"]).unwrap_err().to_string();
        assert!(why.contains("link b-c, only: a-b"), "{why}");
    }

    #[test]
    fn refused_end_and_rate_name_the_limit() {
        let hour = 3_600_000_000_000;
        let end = |nanos| policy().check_end("ada", Timestamp(5), Timestamp(nanos));
        assert!(end(5 + hour).is_ok());
        assert!(
            end(6 + hour)
                .unwrap_err()
                .to_string()
                .contains("till 1970-01-01T01:00")
        );
        let rate = |most, others| policy().check_rate("ada", most, others);
        assert!(rate(100_000_000, 0).is_ok());
        let why = rate(100_000_001, 40_000_000).unwrap_err().to_string();
        assert!(why.contains("at most 60.000 Mb/s"), "{why}");
        let why = rate(200_000_000, 100_000_000).unwrap_err().to_string();
        assert!(why.contains("choose another time"), "{why}");
    }
}
