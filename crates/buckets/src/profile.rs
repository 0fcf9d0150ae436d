//! Profiles in `~/.aws/config` and `~/.aws/credentials`, and programs that print credentials.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_session::error::{Error, FileAction};
use object_store::aws::AwsCredential;
use serde_json::Value;

use crate::call_error::{CallError, Reason};
use crate::credential_program::{self, ProgramFault};
use crate::environment;

/// Settings of one profile, of both files.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    name: String,
    settings: BTreeMap<String, String>,
}

/// Reason why a profile has no credentials now.
#[derive(Debug)]
pub(crate) enum NoCredentials {
    /// Its program failed, or did not end in time.
    Failed(CallError),
    /// The task that needs them was cancelled.
    Cancelled,
}

impl Profile {
    /// Reads the profile that `AWS_PROFILE` names, or `default`. A file that does not exist has no settings.
    pub(crate) fn read() -> Result<Self, Error> {
        let named = environment::text("AWS_PROFILE");
        let name = named.clone().unwrap_or_else(|| "default".to_owned());
        let mut settings = BTreeMap::new();
        let mut is_there = false;
        for (variable, file, prefix) in FILES {
            let usual = || Some(environment::home()?.join(".aws").join(file));
            let path = environment::text(variable).map(PathBuf::from);
            let Some(path) = path.or_else(usual) else {
                continue;
            };
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::file(FileAction::ReadKeys, &path, &error)),
            };
            let section = if name == "default" {
                name.clone()
            } else {
                format!("{prefix}{name}")
            };
            is_there |= collect(&text, &section, &mut settings);
        }
        if let Some(name) = named.filter(|_| !is_there) {
            let text = format!("there is no profile {name} in ~/.aws/config or ~/.aws/credentials");
            return Err(CallError::new(Reason::Denied, text).during("cannot use AWS_PROFILE"));
        }
        Ok(Self { name, settings })
    }

    /// Returns a setting.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Returns the credentials of the profile, if it has any.
    pub(crate) fn credentials(&self) -> Result<Option<AwsCredential>, NoCredentials> {
        if let (Some(key), Some(secret)) = (
            self.get("aws_access_key_id"),
            self.get("aws_secret_access_key"),
        ) {
            return Ok(Some(AwsCredential {
                key_id: key.to_owned(),
                secret_key: secret.to_owned(),
                token: self.get("aws_session_token").map(str::to_owned),
            }));
        }
        let program = self.get("credential_process");
        program.map(|line| self.printed(line)).transpose()
    }

    /// Returns true if the profile has a program that prints its credentials.
    pub(crate) fn has_program(&self) -> bool {
        self.get("credential_process").is_some()
    }

    /// Returns the credentials that the program of the profile prints.
    fn printed(&self, line: &str) -> Result<AwsCredential, NoCredentials> {
        let failed = |why: &str| {
            let text = format!("the credential_process of profile {} {why}", self.name);
            NoCredentials::Failed(CallError::new(Reason::Denied, text))
        };
        let output = match credential_program::output(line, PROGRAM_LIMIT) {
            Ok(output) => output,
            Err(ProgramFault::Failed(why)) => return Err(failed(&why)),
            Err(ProgramFault::TimedOut(limit)) => {
                let why = format!("does not end within {} s", limit.as_secs());
                return Err(failed(&why));
            }
            Err(ProgramFault::Cancelled) => return Err(NoCredentials::Cancelled),
        };
        let printed: Value =
            serde_json::from_slice(&output).map_err(|_| failed("prints no JSON"))?;
        let word = |name: &str| printed.get(name)?.as_str().map(str::to_owned);
        let missing = || failed("prints no AccessKeyId and SecretAccessKey");
        Ok(AwsCredential {
            key_id: word("AccessKeyId").ok_or_else(missing)?,
            secret_key: word("SecretAccessKey").ok_or_else(missing)?,
            token: word("SessionToken"),
        })
    }
}

/// Adds the settings of one section of an INI file. Returns true if the section exists.
fn collect(text: &str, section: &str, settings: &mut BTreeMap<String, String>) -> bool {
    let (mut is_inside, mut is_there) = (false, false);
    for line in text.lines() {
        // settings of settings are indented
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        let line = line.trim();
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            is_inside = name.trim() == section;
            is_there |= is_inside;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_inside) {
            settings.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    is_there
}

/// Files of profiles: the variable that names another one, the name, and what comes before the name of a profile there.
/// The second one wins.
const FILES: [(&str, &str, &str); 2] = [
    ("AWS_CONFIG_FILE", "config", "profile "),
    ("AWS_SHARED_CREDENTIALS_FILE", "credentials", ""),
];

/// Time for a program that prints credentials, as in the library of AWS for Go.
const PROGRAM_LIMIT: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_has_the_settings_of_its_section_only() {
        let text = "[default]\nregion = one\n# x = y\n[profile far]\nregion= two \ns3 =\n  region = three\n\n[profile near]\nregion=four\n";
        let mut settings = BTreeMap::new();
        assert!(collect(text, "profile far", &mut settings));
        assert_eq!(settings["region"], "two");
        assert!(!collect(text, "far", &mut settings));
        assert!(collect(text, "default", &mut settings));
        assert_eq!(settings["region"], "one");
    }
}
