//! Policy file in TOML: limits on the bookings of each identity.
//!
//! ```toml
//! [default]                          # for identities that are not listed
//! prefixes = ["10.1.0.0/16"]         # permitted destinations of circuits [default: none]
//! interfaces = ["eth1"]              # permitted interfaces of circuits [default: all]
//! links = ["chicago-amsterdam"]      # permitted links [default: all]
//! rate_max = "1Gb/s"                 # total rate at any time [default: no limit]
//! ahead = "7d"                       # latest end, from now on [default: --horizon]
//! bytes_per_day = "10TB"             # [default: no limit]
//! reservations = 100                 # maximum at one time [default: 1000]
//! uncommitted_per_hour = "10m"       # time of a whole link that is held and not committed [default: 10m]
//! job_sources = ["lh://far/{user}/"] # places that jobs may copy from [default: none]
//! job_targets = ["s3://archive/"]    # places that jobs may copy to [default: none]
//!
//! [identity."ada@idp.example.org"]   # other values are as above
//! prefixes = ["10.2.0.0/16", "2001:db8::/48"]
//! ```

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use lighthaul_base::Rate;
use lighthaul_base::config_fault::fault_in;
use lighthaul_booking_client::json::{Bytes, IsoDuration, WithUnit};
use lighthaul_fs::watched_file::WatchedFile;
use serde::Deserialize;
use toml::Value;
use tracing::{error, info};

use crate::books::{JobPlace, JobPlaceError, Policy, Quota};
use crate::error::{PolicyFileError, Result, SetupError};

/// Policies of all identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Policy of identities that are not listed.
    pub default: Policy,
    /// Policies of listed identities by name.
    pub listed: BTreeMap<String, Policy>,
}

/// Policy file that is read again after each change.
///
/// A change takes effect after two equal readings. An editor may truncate a file before it writes
/// it, and absent policies would permit more than the intended ones.
#[derive(Debug)]
pub struct PolicyFile {
    file: WatchedFile<Text>,
    usual: Policy,
    /// Text that was last read, or the reason why it could not be read.
    read: Arc<Text>,
    /// True if that text has been applied or refused.
    is_settled: bool,
    /// Fault that was last logged; `None` if the text had none.
    fault: Option<String>,
}

impl PolicyFile {
    /// Reads the policy file at `path`. Values that it omits are those of `usual`. [`Self::poll`]
    /// returns later changes.
    pub fn open(path: &Path, usual: Policy) -> Result<(Self, Policies)> {
        let file = WatchedFile::new(path.to_owned());
        let read = text(&file);
        let wrong = |why| SetupError::PolicyFile {
            path: path.to_owned(),
            why,
        };
        let policies = match &*read {
            Ok(text) => parse(text, &usual).map_err(wrong),
            Err(why) => Err(wrong(PolicyFileError::Read(why.clone()))),
        };
        let watch = Self {
            file,
            usual,
            read,
            is_settled: true,
            fault: None,
        };
        Ok((watch, policies?))
    }

    /// Returns the policies if the file has changed.
    ///
    /// An identity with a faulty policy may book nothing. If the file as a whole is not readable,
    /// the previous policies stay in force. Each new fault is logged.
    pub fn poll(&mut self) -> Option<Policies> {
        let read = text(&self.file);
        if read != self.read {
            self.read = read;
            self.is_settled = false;
            return None;
        }
        if mem::replace(&mut self.is_settled, true) {
            return None;
        }
        let (policies, fault) = match &*self.read {
            Ok(text) => self.take(text),
            Err(why) => (None, Some(self.not_applied(why))),
        };
        if let Some(fault) = self.new_fault(fault) {
            error!("{fault}");
        }
        policies
    }

    /// Returns the valid policies in `text`, and the first fault.
    fn take(&self, text: &str) -> (Option<Policies>, Option<String>) {
        let place = self.file.path().display();
        let why = match parse(text, &self.usual) {
            Ok(policies) => {
                info!("applied the policy file {place}");
                return (Some(policies), None);
            }
            Err(why) => why.to_string(),
        };
        let Some((policies, barred)) = parse_each(text, &self.usual) else {
            return (None, Some(self.not_applied(&why)));
        };
        let barred = barred.join(", ");
        let fault = format!(
            "policy file {place}: {barred} may book nothing until this fault is corrected: {why}"
        );
        (Some(policies), Some(fault))
    }

    fn not_applied(&self, why: &str) -> String {
        let place = self.file.path().display();
        format!("policy file {place} is not applied, the previous policies stay in force: {why}")
    }

    /// Stores the fault of a text, and returns the fault if it differs from the fault of the previous text.
    fn new_fault(&mut self, fault: Option<String>) -> Option<String> {
        let before = mem::replace(&mut self.fault, fault);
        self.fault.clone().filter(|_| self.fault != before)
    }
}

type Text = std::result::Result<String, String>;

/// Reads the file if it has changed. Returns its text, or the reason why it cannot be read.
fn text(file: &WatchedFile<Text>) -> Arc<Text> {
    let text = |octets: Option<Vec<u8>>, _: Option<&Text>| {
        let octets = octets.ok_or_else(|| "the file does not exist".to_owned());
        Ok(octets.and_then(|octets| String::from_utf8(octets).map_err(|why| why.to_string())))
    };
    file.parsed(text)
        .unwrap_or_else(|why| Arc::new(Err(why.to_string())))
}

/// Parses the text of a policy file.
pub fn parse(text: &str, usual: &Policy) -> std::result::Result<Policies, PolicyFileError> {
    let file: FileContent = toml::from_str(text)
        .map_err(|why| PolicyFileError::Toml(fault_in(text, why.span(), why.message())))?;
    let default = file.default.over(usual)?;
    let listed = file.identity.into_iter().map(|(name, written)| {
        let policy = written.over(&default)?;
        Ok((name, policy))
    });
    Ok(Policies {
        listed: listed.collect::<std::result::Result<_, _>>()?,
        default,
    })
}

/// Parses a policy file policy by policy. Returns the names of faulty policies, which permit
/// nothing. Returns `None` if the file as a whole is not readable.
fn parse_each(text: &str, usual: &Policy) -> Option<(Policies, Vec<String>)> {
    let tables: Tables = toml::from_str(text).ok()?;
    let mut barred = Vec::new();
    let mut read = |name: &str, table: Value, usual: &Policy| {
        let policy = PolicyTable::deserialize(table).ok();
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

/// Policy file whose policies are parsed one by one.
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
struct FileContent {
    #[serde(default)]
    default: PolicyTable,
    #[serde(default)]
    identity: BTreeMap<String, PolicyTable>,
}

/// Policy as written in the file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    prefixes: Option<Vec<String>>,
    interfaces: Option<Vec<String>>,
    links: Option<Vec<String>>,
    rate_max: Option<WithUnit<Rate>>,
    ahead: Option<WithUnit<IsoDuration>>,
    bytes_per_day: Option<WithUnit<Bytes>>,
    reservations: Option<usize>,
    uncommitted_per_hour: Option<WithUnit<IsoDuration>>,
    job_sources: Option<Vec<String>>,
    job_targets: Option<Vec<String>>,
}

impl PolicyTable {
    /// Returns the policy with omitted values from `usual`.
    fn over(self, usual: &Policy) -> std::result::Result<Policy, PolicyFileError> {
        let mut policy = usual.clone();
        if let Some(prefixes) = self.prefixes {
            let prefixes = prefixes.into_iter();
            let prefixes =
                prefixes.map(|text| text.parse().map_err(|_| PolicyFileError::Prefix(text)));
            policy.prefixes = prefixes.collect::<std::result::Result<_, _>>()?;
        }
        if let Some(places) = self.job_sources {
            policy.job_sources = job_places(&places)?;
        }
        if let Some(places) = self.job_targets {
            policy.job_targets = job_places(&places)?;
        }
        policy.rate_max = self.rate_max.map(|rate| rate.0).or(policy.rate_max);
        policy.interfaces = self.interfaces.or(policy.interfaces);
        policy.links = self.links.or(policy.links);
        policy.ahead = self.ahead.map(|ahead| ahead.0.0).or(policy.ahead);
        let Quota {
            reservations,
            bytes,
            uncommitted,
        } = policy.quota;
        policy.quota = Quota {
            reservations: self.reservations.unwrap_or(reservations),
            bytes: self.bytes_per_day.map_or(bytes, |bytes| bytes.0.0),
            uncommitted: self
                .uncommitted_per_hour
                .map(|time| time.0.0)
                .or(uncommitted),
        };
        Ok(policy)
    }
}

fn job_places(places: &[String]) -> std::result::Result<Vec<JobPlace>, PolicyFileError> {
    let places = places.iter().map(|text| text.parse());
    places
        .collect::<std::result::Result<_, _>>()
        .map_err(|why: JobPlaceError| PolicyFileError::JobPlace(why.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn policy_of_an_identity_overrides_the_default() {
        let text = "
            [default]
            prefixes = ['10.1.0.0/16']
            rate_max = '1Gb/s'
            ahead = '7d'
            [identity.ada]
            prefixes = ['10.2.0.0/16', '2001:db8::/48']
            interfaces = ['eth1']
            bytes_per_day = '1TB'
            uncommitted_per_hour = '3m'
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
        assert_eq!(ada.quota.uncommitted, Some(Duration::from_mins(3)));
        assert_eq!(policies.default.quota.uncommitted, None);
        assert_eq!(ada.ahead, Some(Duration::from_hours(24 * 7)));
        let ben = &policies.listed["ben@idp"];
        assert_eq!(ben.links, Some(Vec::new()));
        assert_eq!((ben.quota.reservations, ben.interfaces.clone()), (0, None));
        assert_eq!(ben.prefixes, policies.default.prefixes);
    }

    #[test]
    fn changed_policy_applies_after_two_readings_and_faulty_policy_denies_all_requests() {
        let path = std::env::temp_dir().join(format!("policies-{}", std::process::id()));
        let write = |text: &str| fs::write(&path, text).unwrap();
        let sees = |watch: &mut PolicyFile| [watch.poll(), watch.poll(), watch.poll()];
        write("[identity.ada]\nreservations = 5\n[identity.ben]\nreservations = 6");
        let (mut watch, policies) = PolicyFile::open(&path, Policy::default()).unwrap();
        assert_eq!(policies.listed["ada"].quota.reservations, 5);
        sees(&mut watch);
        // as if an editor had truncated the file
        write("");
        assert_eq!(watch.poll(), None);
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
        let fault = watch.fault.clone().unwrap();
        assert!(fault.contains("ada may book nothing"), "{fault}");
        // omitted values of a faulty default policy permit nothing
        write("[default]\nahead = 'soon'\n[identity.ben]\nreservations = 7");
        let [_, Some(barred), _] = sees(&mut watch) else {
            panic!("a change was not seen");
        };
        assert_eq!(barred.default, Policy::nothing());
        assert_eq!(barred.listed["ben"].links, Some(Vec::new()));
        for text in ["[identity.ada", "ada = 1", "[identity]\nada = 1\nada = 2"] {
            write(text);
            assert_eq!(sees(&mut watch), [None, None, None], "{text}");
            let fault = watch.fault.clone().unwrap();
            assert!(fault.contains("the previous policies stay"), "{fault}");
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
    fn lasting_fault_is_logged_once() {
        let path = std::env::temp_dir().join(format!("policies-fault-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let (mut watch, _) = PolicyFile::open(&path, Policy::default()).unwrap();
        let mut logged = |fault: Option<&str>| watch.new_fault(fault.map(str::to_owned)).is_some();
        assert_eq!([logged(Some("a")), logged(Some("a"))], [true, false]);
        assert_eq!([logged(Some("b")), logged(None)], [true, false]);
        assert!(logged(Some("b")));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn edit_with_equal_length_and_time_is_noticed() {
        let path = std::env::temp_dir().join(format!("policies-tick-{}", std::process::id()));
        let write = |count: u32| {
            fs::write(&path, format!("[default]\nreservations = {count}")).unwrap();
            let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
        };
        write(5);
        let (mut watch, _) = PolicyFile::open(&path, Policy::default()).unwrap();
        for count in [6, 7, 8] {
            write(count);
            assert_eq!(watch.poll(), None);
            let policies = watch.poll().unwrap();
            assert_eq!(policies.default.quota.reservations, count as usize);
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn faulty_policy_file_is_refused_at_start() {
        for (text, says) in [
            ("[default]\nprefix = []", "line 2, column 1: unknown field"),
            ("[default]\nprefixes = ['10.1.0.0/33']", "10.1.0.0/33"),
            ("[default]\nrate_max = '0Mb/s'", "Mb/s"),
            (
                "[default]\nrate_max = 1000000000",
                "line 2, column 12: a rate needs a unit, as in 900Mb/s",
            ),
            ("[default]\nrate_max = 1.5", "needs a unit"),
            ("[default]\nrate_max = 0", "needs a unit"),
            (
                "[default]\nbytes_per_day = 1000",
                "a size needs a unit, as in 450MB",
            ),
            ("[identity.ada]\nahead = 7", "a duration needs a unit"),
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
