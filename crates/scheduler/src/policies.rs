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
use std::path::{Path, PathBuf};
use std::{fs, mem};

use lighthaul_base::Rate;
use lighthaul_base::position::fault_in;
use serde::Deserialize;
use toml::Value;

use tracing::{error, info};

use crate::books::{Policy, Quota};
use crate::error::{Error, Result};
use crate::word::{Bytes, Span, WithUnit};

/// What identities may book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Policy of those that are not listed.
    pub default: Policy,
    /// Policies of others, by name.
    pub listed: BTreeMap<String, Policy>,
}

/// A file of policies that is read again when it changes.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    usual: Policy,
    /// Text that was read last, or the reason that it could not be read.
    read: Text,
    /// True if the last text has been taken over or refused.
    is_settled: bool,
}

impl Watch {
    /// The policies of the file at `path`, whose changes are looked for from now on; what it leaves open is as in `usual`.
    pub fn begin(path: &Path, usual: Policy) -> Result<(Self, Policies)> {
        let read = text(path);
        let place = path.display();
        let wrong = |why| Error::Misuse(format!("cannot use the policies in {place}: {why}"));
        let policies = match &read {
            Ok(text) => parse(text, &usual).map_err(|why| wrong(why.to_string())),
            Err(why) => Err(wrong(why.clone())),
        };
        let watch = Self {
            read,
            path: path.to_owned(),
            usual,
            is_settled: true,
        };
        policies.map(|policies| (watch, policies))
    }

    /// Returns the policies of the file if they are new. The file must say so twice in a row, since an editor may empty a file that it is about
    /// to fill.
    ///
    /// A policy that makes no sense is logged, and its holder may book nothing; where no policy can be told from another,
    /// those that were read before stay.
    pub fn look(&mut self) -> Option<Policies> {
        let read = text(&self.path);
        if read != self.read {
            self.read = read;
            self.is_settled = false;
            return None;
        }
        if mem::replace(&mut self.is_settled, true) {
            return None;
        }
        let policies = match &self.read {
            Ok(text) => self.take(text),
            Err(why) => Err(why.clone()),
        };
        let place = self.path.display();
        policies
            .inspect_err(|why| {
                error!("the policies stay as they were, since {place} cannot be used: {why}");
            })
            .ok()
    }

    /// The policies in `text`, without those that make no sense.
    fn take(&self, text: &str) -> Taken {
        let place = self.path.display();
        let why = match parse(text, &self.usual) {
            Ok(policies) => {
                info!("the policies are those of {place} now");
                return Ok(policies);
            }
            Err(why) => why.to_string(),
        };
        let (policies, barred) = parse_each(text, &self.usual)
            .ok_or(&why)
            .map_err(String::clone)?;
        let barred = barred.join(", ");
        error!("{place} allows {barred} nothing until this is mended: {why}");
        Ok(policies)
    }
}

type Text = std::result::Result<String, String>;
type Taken = std::result::Result<Policies, String>;

/// Reads the file, or returns the reason that it cannot be read.
fn text(path: &Path) -> Text {
    fs::read_to_string(path).map_err(|why| why.to_string())
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

/// Reads the text of such a file policy by policy, and names those that make no sense, whose holders may book nothing;
/// nothing if no policy can be told from another.
fn parse_each(text: &str, usual: &Policy) -> Option<(Policies, Vec<String>)> {
    let tables: Tables = toml::from_str(text).ok()?;
    let mut barred = Vec::new();
    let mut read = |name: &str, table: Value, usual: &Policy| {
        let policy = Written::deserialize(table).ok();
        policy
            .and_then(|written| written.over(usual).ok())
            .unwrap_or_else(|| {
                barred.push(name.to_owned());
                Policy::nothing()
            })
    };
    let default = read("identities that are not listed", tables.default, usual);
    let listed = tables.identity.into_iter();
    let listed = listed.map(|(name, table)| {
        let policy = read(&name, table, &default);
        (name, policy)
    });
    let listed = listed.collect();
    Some((Policies { default, listed }, barred))
}

/// A file of which each policy is read by itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default = "empty")]
    default: Value,
    #[serde(default)]
    identity: BTreeMap<String, Value>,
}

fn empty() -> Value {
    Value::Table(toml::Table::new())
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
    rate_max: Option<WithUnit<Rate>>,
    ahead: Option<WithUnit<Span>>,
    bytes_per_day: Option<WithUnit<Bytes>>,
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
        policy.rate_max = self.rate_max.map(|rate| rate.0).or(policy.rate_max);
        policy.interfaces = self.interfaces.or(policy.interfaces);
        policy.links = self.links.or(policy.links);
        policy.ahead = self.ahead.map(|ahead| ahead.0.0).or(policy.ahead);
        let Quota {
            reservations,
            bytes,
        } = policy.quota;
        policy.quota = Quota {
            reservations: self.reservations.unwrap_or(reservations),
            bytes: self.bytes_per_day.map_or(bytes, |bytes| bytes.0.0),
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
    fn a_changed_file_counts_once_it_is_whole_and_bars_whose_policy_makes_no_sense() {
        let path = std::env::temp_dir().join(format!("policies-{}", std::process::id()));
        let write = |text: &str| fs::write(&path, text).unwrap();
        let sees = |watch: &mut Watch| [watch.look(), watch.look(), watch.look()];
        write("[identity.ada]\nreservations = 5\n[identity.ben]\nreservations = 6");
        let (mut watch, policies) = Watch::begin(&path, Policy::default()).unwrap();
        assert_eq!(policies.listed["ada"].quota.reservations, 5);
        sees(&mut watch);
        // as while an editor writes it
        write("");
        assert_eq!(watch.look(), None);
        write("[identity.ada]\nreservations = 3\n[identity.ben]\nreservations = 6");
        let [none, Some(narrowed), same] = sees(&mut watch) else {
            panic!("a change was not seen");
        };
        assert_eq!((none, same), (None, None));
        assert_eq!(narrowed.listed["ada"].quota.reservations, 3);
        write("[identity.ada]\nprefix = []\n[identity.ben]\nreservations = 7");
        let [_, Some(barred), _] = sees(&mut watch) else {
            panic!("a change was not seen");
        };
        assert_eq!(barred.listed["ada"], Policy::nothing());
        assert_eq!(barred.listed["ben"].quota.reservations, 7);
        // all that is not said is as in a policy that makes no sense
        write("[default]\nahead = 'soon'\n[identity.ben]\nreservations = 7");
        let [_, Some(barred), _] = sees(&mut watch) else {
            panic!("a change was not seen");
        };
        assert_eq!(barred.default, Policy::nothing());
        assert_eq!(barred.listed["ben"].links, Some(Vec::new()));
        for text in ["[identity.ada", "ada = 1", "[identity]\nada = 1\nada = 2"] {
            write(text);
            assert_eq!(sees(&mut watch), [None, None, None], "{text}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(sees(&mut watch), [None, None, None]);
        write("");
        let [_, Some(open), _] = sees(&mut watch) else {
            panic!("a change was not seen");
        };
        assert_eq!(open, Policies::default());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_policy_that_is_not_understood_is_refused_as_a_whole() {
        for (text, says) in [
            ("[default]\nprefix = []", "line 2, column 1: unknown field"),
            ("[default]\nprefixes = ['10.1.0.0/33']", "10.1.0.0/33"),
            ("[default]\nrate_max = '0Mb/s'", "Mb/s"),
            (
                "[default]\nrate_max = 1000000000",
                "line 2, column 12: expected a rate: a number above zero and a unit",
            ),
            ("[default]\nrate_max = 1.5", "and a unit"),
            ("[default]\nrate_max = 0", "and a unit"),
            (
                "[default]\nbytes_per_day = 1000",
                "expected a size: a number and a unit",
            ),
            ("[identity.ada]\nahead = 7", "2h 30m, 7d"),
            ("[identity.ada]\nahead = true", "text with a unit"),
            ("[identity.ada]\nahead = 'soon'", "7d"),
            (
                "[identity.ada]\n[identity.ada]",
                "line 2, column 11: duplicate",
            ),
            ("ada = 1", "unknown field"),
        ] {
            let why = parse(text, &Policy::default()).unwrap_err().to_string();
            assert!(why.contains(says) && !why.contains('\n'), "{text}: {why}");
        }
    }
}
