//! A file of policies in TOML: what each identity may book.
//!
//! ```toml
//! [default]                          # identities that are not listed
//! prefixes = ["10.1.0.0/16"]         # destinations of packets that circuits may carry; none
//! interfaces = ["eth1"]              # interfaces at which circuits may be made; all
//! links = ["chicago-amsterdam"]      # links that may be booked; all
//! rate_max = "1Gb/s"                 # of all reservations at one time together; no limit
//! ahead = "7d"                       # how far ahead reservations may end; as far as --horizon
//! bytes_per_day = "10TB"             # no limit
//! reservations = 100                 # 1000
//!
//! [identity."ada@idp.example.org"]   # what is not said here is as above
//! prefixes = ["10.2.0.0/16", "2001:db8::/48"]
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lighthaul_base::position::fault_in;
use serde::Deserialize;

use crate::books::{Policy, Quota};
use crate::error::{Error, Result};
use crate::word::{Bps, Bytes, Span};

/// What identities may book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Policy of those that are not listed.
    pub default: Policy,
    /// Policies of others, by name.
    pub listed: BTreeMap<String, Policy>,
}

/// Reads a file; what it leaves open is as in `usual`.
pub fn read(path: &Path, usual: &Policy) -> Result<Policies> {
    let place = path.display();
    let wrong = |why: String| Error::Misuse(format!("cannot use the policies in {place}: {why}"));
    let text = fs::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
    parse(&text, usual).map_err(|why| wrong(why.to_string()))
}

/// Reads the text of such a file.
pub fn parse(text: &str, usual: &Policy) -> Result<Policies> {
    let file: File = toml::from_str(text)
        .map_err(|why| Error::Misuse(fault_in(text, why.span(), why.message())))?;
    let default = file.default.over(usual)?;
    let listed = file.identity.into_iter().map(|(name, written)| {
        let policy = written.over(&default)?;
        Ok((name, policy))
    });
    Ok(Policies {
        listed: listed.collect::<Result<_>>()?,
        default,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    default: Written,
    #[serde(default)]
    identity: BTreeMap<String, Written>,
}

/// A policy as people write it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    prefixes: Option<Vec<String>>,
    interfaces: Option<Vec<String>>,
    links: Option<Vec<String>>,
    rate_max: Option<Bps>,
    ahead: Option<Span>,
    bytes_per_day: Option<Bytes>,
    reservations: Option<usize>,
}

impl Written {
    /// What it says, and what `usual` says where it says nothing.
    fn over(self, usual: &Policy) -> Result<Policy> {
        let mut policy = usual.clone();
        if let Some(prefixes) = self.prefixes {
            let wrong = |text: &str| {
                Error::Misuse(format!(
                    "\"{text}\" is no prefix; write it as in 10.1.0.0/16 or 2001:db8::/48"
                ))
            };
            let prefixes = prefixes.iter();
            let prefixes = prefixes.map(|text| text.parse().map_err(|_| wrong(text)));
            policy.prefixes = prefixes.collect::<Result<_>>()?;
        }
        if let Some(rate) = self.rate_max {
            let zero = || Error::Misuse("rate_max is zero; list no links instead".to_owned());
            policy.rate_max = Some(rate.rate().ok_or_else(zero)?);
        }
        policy.interfaces = self.interfaces.or(policy.interfaces);
        policy.links = self.links.or(policy.links);
        policy.ahead = self.ahead.map(|span| span.0).or(policy.ahead);
        let Quota {
            reservations,
            bytes,
        } = policy.quota;
        policy.quota = Quota {
            reservations: self.reservations.unwrap_or(reservations),
            bytes: self.bytes_per_day.map_or(bytes, |bytes| bytes.0),
        };
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_identity_has_what_its_line_says_and_else_the_default() {
        let text = "
            [default]
            prefixes = ['10.1.0.0/16']
            rate_max = '1Gb/s'
            ahead = '7d'
            [identity.ada]
            prefixes = ['10.2.0.0/16', '2001:db8::/48']
            interfaces = ['eth1']
            bytes_per_day = '1TB'
            [identity.'ben@idp']
            links = []
            reservations = 0";
        let policies = parse(text, &Policy::default()).unwrap();
        let rate = policies.default.rate_max.unwrap();
        assert_eq!(rate.as_bps(), 1_000_000_000);
        let ada = &policies.listed["ada"];
        let prefixes: Vec<String> = ada.prefixes.iter().map(ToString::to_string).collect();
        assert_eq!(prefixes, ["10.2.0.0/16", "2001:db8::/48"]);
        assert_eq!(ada.interfaces, Some(vec!["eth1".to_owned()]));
        assert_eq!(ada.quota.bytes, 1_000_000_000_000);
        assert_eq!(ada.quota.reservations, 1000);
        assert_eq!(ada.ahead, Some(Duration::from_hours(24 * 7)));
        let ben = &policies.listed["ben@idp"];
        assert_eq!(ben.links, Some(Vec::new()));
        assert_eq!((ben.quota.reservations, ben.interfaces.clone()), (0, None));
        assert_eq!(ben.prefixes, policies.default.prefixes);
    }

    #[test]
    fn a_policy_that_is_not_understood_is_refused_as_a_whole() {
        for (text, says) in [
            ("[default]\nprefix = []", "line 2, column 1: unknown field"),
            ("[default]\nprefixes = ['10.1.0.0/33']", "10.1.0.0/33"),
            ("[default]\nrate_max = '0Mb/s'", "Mb/s"),
            ("[default]\nrate_max = 0", "zero"),
            ("[identity.ada]\nahead = 'soon'", "7d"),
            ("[identity.ada]\n[identity.ada]", "line 2, column 11: duplicate"),
            ("ada = 1", "unknown field"),
        ] {
            let why = parse(text, &Policy::default()).unwrap_err().to_string();
            assert!(why.contains(says) && !why.contains('\n'), "{text}: {why}");
        }
    }
}
