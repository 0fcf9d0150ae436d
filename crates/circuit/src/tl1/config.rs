//! Settings of a switch, read from a TOML file.
//!
//! ```toml
//! address = "switch.example.org"       # host, or host:port [default port: that of the vendor]
//! dialect = "calient"                  # or "glimmerglass", "cisco"
//! signal = "STS3C"                     # cisco only: signal of one channel
//! login = "/etc/lighthaul/switch.login" # file with two lines: user and password
//! records = "/var/lib/lighthaul/switch" # directory for the channels of circuits
//! direction = "two-way"                # directions of a cross-connect [default: "one-way"]
//! channel_rate = "10Gb/s"              # rate of one channel
//! overhead_bytes = 38                  # counted for each packet beside the IP packet [default: 38]
//! reconfiguration = "50ms"             # time until the mirrors have moved
//! command_time = "5ms"                 # longest time of the switch for one command [default: 0]
//! settling = "20ms"                    # time until light is reliable after that [default: 0]
//! timeout = "10s"                      # limit for an answer [default: 10s]
//! list_timeout = "2m"                  # limit for a list [default: 2m]
//! power_min_dbm = -20.0                # glimmerglass only: lowest power after a connect [default: not checked]
//!
//! [interfaces]                         # channels: pairs of an input and an output port
//! wan = [["1.1.1", "2.1.1"], ["1.1.2", "2.1.2"]]
//! ```
//!
//! Unknown keys are refused. No two channels may share a port.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::config_fault::fault_in;
use lighthaul_base::{Rate, duration};
use lighthaul_io::host::durable;
use serde::Deserialize;

use crate::error::{self, Misuse};
use crate::tl1::cross_connect::{CrossConnect, Direction, Port};
use crate::tl1::dialect::Dialect;
use crate::tl1::fault::SettingsFault;

/// Settings of a switch, which are consistent.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Host name or address.
    pub host: String,
    /// Port of TCP.
    pub port: u16,
    /// Commands of the vendor.
    pub dialect: Dialect,
    /// Credentials for the switch.
    pub login: Login,
    /// Directory with the record of each interface.
    pub records: PathBuf,
    /// Rate and overhead of a channel.
    pub channel: Channel,
    /// Time until the mirrors have moved.
    pub reconfiguration: Duration,
    /// Longest time of the switch for one command.
    pub command_time: Duration,
    /// Time until light is reliable after that.
    pub settling: Duration,
    /// Time limits of answers.
    pub limits: Limits,
    /// Lowest power of light after a connect, in dBm.
    pub power_min_dbm: Option<f64>,
    /// Channels of each interface, in the order of their use.
    pub interfaces: BTreeMap<String, Vec<CrossConnect>>,
}

/// User of a switch.
#[derive(Clone, Debug)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Password of the user.
    pub password: Password,
}

/// Password, which `Debug` does not show.
#[derive(Clone)]
pub struct Password(String);

/// Rate and overhead of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// Rate of the channel.
    pub rate: Rate,
    /// Bytes of each packet that count in addition to the IP packet.
    pub overhead_bytes: u16,
}

/// Time limits of answers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Limit for an answer, and for a connection attempt.
    pub command: Duration,
    /// Limit for a list, and for a command in progress.
    pub list: Duration,
}

impl SwitchConfig {
    /// Reads the settings at `path`, and the login file that they name.
    pub fn read(path: &Path) -> error::Result<Self> {
        Self::read_file(path).map_err(|fault| {
            let path = path.to_owned();
            Misuse::SwitchSettings { path, fault }.into()
        })
    }

    fn read_file(path: &Path) -> Result<Self, SettingsFault> {
        let text = read_text(path)?;
        let file: SwitchFile = toml::from_str(&text)
            .map_err(|why| SettingsFault::Toml(fault_in(&text, why.span(), why.message())))?;
        let login = read_login(&file.login)?;
        file.checked(login)
    }

    /// Returns the address as in the settings, for messages.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Password {
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

// fields: these are the keys of the file
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchFile {
    address: String,
    dialect: Vendor,
    signal: Option<String>,
    login: PathBuf,
    records: PathBuf,
    #[serde(default = "usual_direction")]
    direction: Direction,
    channel_rate: String,
    overhead_bytes: Option<u16>,
    reconfiguration: String,
    command_time: Option<String>,
    settling: Option<String>,
    timeout: Option<String>,
    list_timeout: Option<String>,
    power_min_dbm: Option<f64>,
    interfaces: BTreeMap<String, Vec<(String, String)>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Vendor {
    Calient,
    Glimmerglass,
    Cisco,
}

impl SwitchFile {
    fn checked(self, login: Login) -> Result<SwitchConfig, SettingsFault> {
        let dialect = self.dialect()?;
        let (host, port) = split_address(&self.address, dialect.port())?;
        let rate = self
            .channel_rate
            .parse()
            .map_err(|why| value("channel_rate", &why))?;
        let limits = Limits {
            command: limit("timeout", self.timeout.as_deref(), COMMAND_LIMIT)?,
            list: limit("list_timeout", self.list_timeout.as_deref(), LIST_LIMIT)?,
        };
        if limits.list < limits.command {
            let why = "a list takes at least as long as another answer";
            return Err(value("list_timeout", why));
        }
        let reconfiguration = time("reconfiguration", &self.reconfiguration)?;
        let command_time = time("command_time", self.command_time.as_deref().unwrap_or("0s"))?;
        let settling = time("settling", self.settling.as_deref().unwrap_or("0s"))?;
        if self
            .power_min_dbm
            .is_some_and(|power| !dialect.has_power() || !power.is_finite())
        {
            let why = "the switch does not report the power of light, or this is not a number";
            return Err(value("power_min_dbm", why));
        }
        let records = self.records.clone();
        if !records.is_absolute() {
            return Err(value("records", "the path must be absolute"));
        }
        let interfaces = self.channels(&dialect)?;
        Ok(SwitchConfig {
            host,
            port,
            dialect,
            login,
            records,
            channel: Channel {
                rate,
                overhead_bytes: self.overhead_bytes.unwrap_or(OVERHEAD_BYTES),
            },
            reconfiguration,
            command_time,
            settling,
            limits,
            power_min_dbm: self.power_min_dbm,
            interfaces,
        })
    }

    fn dialect(&self) -> Result<Dialect, SettingsFault> {
        let is_plain = |octet: u8| octet.is_ascii_alphanumeric();
        match (self.dialect, &self.signal) {
            (Vendor::Calient, None) => Ok(Dialect::Calient),
            (Vendor::Glimmerglass, None) => Ok(Dialect::Glimmerglass),
            (Vendor::Calient | Vendor::Glimmerglass, Some(_)) => {
                Err(value("signal", "only a cisco has signals"))
            }
            (Vendor::Cisco, Some(signal))
                if (1..=SIGNAL_MAX).contains(&signal.len()) && signal.bytes().all(is_plain) =>
            {
                let signal = signal.to_ascii_uppercase();
                Ok(Dialect::Cisco { signal })
            }
            (Vendor::Cisco, _) => Err(value("signal", "a cisco needs one, such as \"STS3C\"")),
        }
    }

    fn channels(
        &self,
        dialect: &Dialect,
    ) -> Result<BTreeMap<String, Vec<CrossConnect>>, SettingsFault> {
        if !dialect.supports(self.direction) {
            let why = "the switch connects ports in one direction only";
            return Err(value("direction", why));
        }
        let mut all: Vec<CrossConnect> = Vec::new();
        let mut interfaces = BTreeMap::new();
        for (interface, pairs) in &self.interfaces {
            let key = format!("interfaces.{interface}");
            check_name(&key, interface)?;
            if !(1..=CHANNELS_MAX).contains(&pairs.len()) {
                let why = format!("an interface has from 1 to {CHANNELS_MAX} channels");
                return Err(value(&key, &why));
            }
            let mut channels = Vec::new();
            for (from, to) in pairs {
                let port = |name: &String| {
                    let why = format!("{name:?} is not the name of a port");
                    Port::new(name).ok_or_else(|| value(&key, &why))
                };
                let channel = CrossConnect::new(port(from)?, port(to)?, self.direction);
                if self.direction == Direction::TwoWay && channel.from() == channel.to() {
                    let why = format!("{channel} connects a port with itself");
                    return Err(value(&key, &why));
                }
                if let Some(other) = all.iter().find(|other| other.conflicts_with(&channel)) {
                    let why = format!("{channel} and {other} share a port");
                    return Err(value(&key, &why));
                }
                all.push(channel.clone());
                channels.push(channel);
            }
            interfaces.insert(interface.clone(), channels);
        }
        if interfaces.is_empty() {
            return Err(value("interfaces", "there must be one"));
        }
        Ok(interfaces)
    }
}

/// Refuses an interface whose name cannot be the name of a record.
fn check_name(key: &str, name: &str) -> Result<(), SettingsFault> {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._".contains(&octet);
    let fits = (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain);
    if fits && !name.starts_with('.') {
        return Ok(());
    }
    let why = "the name of an interface has letters, digits, `-`, `.` and `_`, and does not begin with `.`";
    Err(value(key, &why))
}

/// Splits `host`, `host:port`, `[address]` or `[address]:port`.
fn split_address(address: &str, usual: u16) -> Result<(String, u16), SettingsFault> {
    let wrong = || value("address", "use host, host:port, or [address]:port");
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            let port = (!port.is_empty()).then(|| port.strip_prefix(':').unwrap_or(""));
            (host, port)
        }
        None => address
            .split_once(':')
            .map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(usual), |port| port.parse().ok());
    let port = port.filter(|port| *port > 0).ok_or_else(wrong)?;
    if host.is_empty() {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

/// Reads the two lines of a login. Their characters cannot change a command.
fn read_login(path: &Path) -> Result<Login, SettingsFault> {
    let wrong = |why: &str| value("login", &format!("{}: {why}", path.display()));
    let text = read_text(path).map_err(|why| wrong(&why.to_string()))?;
    let mut lines = text.lines();
    let (Some(user), Some(password), None) = (lines.next(), lines.next(), lines.next()) else {
        return Err(wrong("it must have two lines: user and password"));
    };
    let is_plain = |octet: u8| octet.is_ascii_graphic() && !b";:,&\"\\".contains(&octet);
    for word in [user, password] {
        if !(1..=WORD_MAX).contains(&word.len()) || !word.bytes().all(is_plain) {
            return Err(wrong(
                "user and password are printable ASCII without spaces and without ; : , & \" \\",
            ));
        }
    }
    Ok(Login {
        user: user.to_owned(),
        password: Password(password.to_owned()),
    })
}

fn read_text(path: &Path) -> Result<String, SettingsFault> {
    let fault = |why: String| SettingsFault::Read(why);
    let octets = durable::read(path, FILE_MAX + 1).map_err(|why| fault(why.to_string()))?;
    let octets = octets.ok_or_else(|| fault("there is no such file".to_owned()))?;
    if octets.len() as u64 > FILE_MAX {
        return Err(fault(format!("the file is longer than {FILE_MAX} bytes")));
    }
    String::from_utf8(octets).map_err(|_| fault("the file is not UTF-8".to_owned()))
}

fn limit(key: &str, text: Option<&str>, usual: Duration) -> Result<Duration, SettingsFault> {
    let limit = text.map_or(Ok(usual), |text| time(key, text))?;
    if limit.is_zero() || limit > LIMIT_MAX {
        let why = "a time limit is above zero and at most ten minutes";
        return Err(value(key, why));
    }
    Ok(limit)
}

fn time(key: &str, text: &str) -> Result<Duration, SettingsFault> {
    duration::parse(text).map_err(|why| value(key, &why))
}

fn value(key: &str, why: &(impl ToString + ?Sized)) -> SettingsFault {
    SettingsFault::Value {
        key: key.to_owned(),
        why: why.to_string(),
    }
}

const fn usual_direction() -> Direction {
    Direction::OneWay
}

const COMMAND_LIMIT: Duration = Duration::from_secs(10);
const LIST_LIMIT: Duration = Duration::from_mins(2);
const LIMIT_MAX: Duration = Duration::from_mins(10);
/// Ethernet header, checksum, preamble and gap.
const OVERHEAD_BYTES: u16 = 38;
const CHANNELS_MAX: usize = 4096;
const NAME_MAX: usize = 64;
const SIGNAL_MAX: usize = 16;
const WORD_MAX: usize = 64;
/// Maximum length of a file in bytes.
const FILE_MAX: u64 = 1 << 20;
