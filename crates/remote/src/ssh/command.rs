//! The ssh command of the user, and its configuration for a host.
//!
//! An [`Ssh`] combines the command that the user gave (`ssh` with options) with a host.
//! [`SshConfig`] is what `ssh -G` prints for it, and stays empty for programs other than OpenSSH.
//! Options of this program come after those of the user, and ssh uses the first value of an option.
//! Remote words must be plain, because a shell there splits them. Processes are started in `start`,
//! not here.

use std::process::{Command, Stdio};

use crate::ssh::error::SshError;

/// The ssh command for one host.
#[derive(Clone, Debug)]
pub struct Ssh {
    program: String,
    options: Vec<String>,
    /// Host, as the user wrote it.
    pub host: String,
    /// Configuration of the host.
    pub config: SshConfig,
}

/// Configuration of a host, in the output of `ssh -G`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshConfig {
    /// Name or address to connect to.
    pub hostname: Option<String>,
    /// Port of the ssh server.
    pub port: Option<u16>,
    /// Host or command in between, if ssh does not connect directly.
    pub via: Option<String>,
    /// True if ssh is OpenSSH, so that its other options are known.
    pub is_openssh: bool,
    /// True if the user has ssh share connections.
    pub is_shared: bool,
    /// True if a shared connection is opened as needed.
    pub opens_shared: bool,
    /// Ciphers in order of preference, separated by commas.
    ciphers: Option<String>,
}

impl Ssh {
    /// Splits the words of `command`, and reads the configuration of `host`.
    pub(crate) fn new(command: &str, host: &str) -> Result<Self, SshError> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or(SshError::NoCommand)?;
        let mut ssh = Self {
            program,
            options: words.collect(),
            host: host.to_owned(),
            config: SshConfig::default(),
        };
        let mut asking = ssh.command(&["-G"]);
        asking.arg(host).stdin(Stdio::null());
        if let Ok(output) = asking.stderr(Stdio::null()).output() {
            ssh.config = SshConfig::parse(&String::from_utf8_lossy(&output.stdout));
        }
        Ok(ssh)
    }

    /// Returns the name of the program.
    pub(crate) fn program(&self) -> String {
        self.program.clone()
    }

    /// Returns the command line that logs in to the host, as the user would type it.
    pub(crate) fn line(&self) -> String {
        let mut words = vec![self.program.as_str()];
        words.extend(self.options.iter().map(String::as_str));
        words.push(&self.host);
        words.join(" ")
    }

    /// Returns a command that runs `remote` with `words` on the host; `options` are added to the user's.
    ///
    /// The login shell there splits the words, so `words` must be plain in every shell.
    pub(crate) fn run(&self, options: &[String], remote: &str, words: &[&str]) -> Command {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        debug_assert!(words.iter().all(|word| word.bytes().all(is_plain)));
        let mut command = self.command(options);
        if let Some(ciphers) = self.config.fast_ciphers() {
            command.arg(format!("-oCiphers={ciphers}"));
        }
        command.args([&self.host, "--", remote]).args(words);
        command
    }

    /// Returns a command with the user's options, then `options`. If both set a value, ssh uses the
    /// user's.
    pub(crate) fn command(&self, options: &[impl AsRef<std::ffi::OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.options).args(options);
        command
    }

    /// Returns the name or address of the host, as resolved by ssh.
    pub fn address(&self) -> String {
        let bare = self
            .host
            .rsplit_once('@')
            .map_or(&*self.host, |(_, bare)| bare);
        self.config.hostname.as_deref().unwrap_or(bare).to_owned()
    }
}

impl SshConfig {
    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().to_owned())
        };
        let set = |name: &str| value(name).filter(|value| value != "none" && !value.is_empty());
        let master = value("controlmaster");
        let opens = master
            .as_deref()
            .is_some_and(|how| !matches!(how, "no" | "false"));
        Self {
            hostname: value("hostname"),
            port: value("port").and_then(|port| port.parse().ok()),
            via: set("proxyjump").or_else(|| set("proxycommand")),
            is_openssh: master.is_some(),
            is_shared: set("controlpath").is_some(),
            opens_shared: opens,
            ciphers: value("ciphers"),
        }
    }

    /// Returns the ciphers with AES-128-GCM first, if `ChaCha20` is first only for hosts without AES instructions.
    /// AES-128-GCM takes three quarters of its processor time.
    fn fast_ciphers(&self) -> Option<String> {
        let list = self.ciphers.as_deref()?;
        let rest = list.strip_prefix("chacha20-poly1305@openssh.com,")?;
        let is_known = rest.split(',').any(|cipher| cipher == FAST_CIPHER);
        let others = list.split(',').filter(|cipher| *cipher != FAST_CIPHER);
        let reordered = || {
            [FAST_CIPHER]
                .into_iter()
                .chain(others)
                .collect::<Vec<_>>()
                .join(",")
        };
        (is_known && has_aes()).then(reordered)
    }
}

const FAST_CIPHER: &str = "aes128-gcm@openssh.com";

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes")
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_aes() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_of_openssh_is_read() {
        let text = "host far\nhostname 10.0.0.7\nport 2222\ncontrolmaster auto\ncontrolpath /tmp/c\n\
                    proxyjump gate\nciphers chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com\n";
        let config = SshConfig::parse(text);
        assert_eq!(config.hostname.as_deref(), Some("10.0.0.7"));
        assert_eq!(
            (config.port, config.via.as_deref()),
            (Some(2222), Some("gate"))
        );
        assert!(config.is_openssh && config.is_shared && config.opens_shared);
        let ciphers = "aes128-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr";
        assert_eq!(
            config.fast_ciphers().as_deref(),
            has_aes().then_some(ciphers)
        );
        let text = "hostname far\ncontrolmaster false\nproxycommand none\nciphers aes128-ctr,aes128-gcm@openssh.com\n";
        let config = SshConfig::parse(text);
        assert!(config.is_openssh && !config.is_shared && !config.opens_shared);
        assert_eq!((config.via.as_deref(), config.fast_ciphers()), (None, None));
        assert_eq!(SshConfig::parse(""), SshConfig::default());
    }
}
