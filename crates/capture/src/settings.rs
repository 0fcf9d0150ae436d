//! Settings of the transparent capture.

use crate::kernel::error::{Error, Misuse};
use crate::ports::Ports;
use lighthaul_base::prefix::Prefix;

/// Selection of the connections to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transparent {
    /// True if forwarded connections of other hosts are captured.
    pub arriving: bool,
    /// Interface where captured connections arrive; none for all.
    pub device: Option<String>,
    /// User IDs whose connections are captured on this host.
    pub users: Vec<u32>,
    /// Destinations of captured connections; empty for all.
    pub prefixes: Vec<Prefix>,
    /// Destination ports of captured connections; empty for all.
    pub ports: Vec<Ports>,
    /// Packet mark of captured connections.
    pub mark: u32,
    /// Routing table that delivers captured packets to this host.
    pub table: u32,
}

impl Default for Transparent {
    fn default() -> Self {
        Self {
            arriving: true,
            device: None,
            users: Vec::new(),
            prefixes: Vec::new(),
            ports: Vec::new(),
            mark: MARK,
            table: MARK,
        }
    }
}

impl Transparent {
    /// Refuses invalid settings.
    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |misuse: Misuse| Err(misuse.into());
        if !self.arriving && self.users.is_empty() {
            return wrong(Misuse::NothingSelected);
        }
        if let Some(device) = self.device.as_ref().filter(|device| !is_device(device)) {
            return wrong(Misuse::Device(device.clone()));
        }
        let own = rustix::process::geteuid().as_raw();
        if self.users.contains(&own) {
            return wrong(Misuse::OwnUser(own));
        }
        if self.mark == 0 || matches!(self.table, 0 | 253..=255) {
            return wrong(Misuse::Reserved);
        }
        Ok(())
    }
}

/// Returns true for a valid interface name that needs no quotes in a rule.
fn is_device(name: &str) -> bool {
    let is_fine = |octet: u8| octet.is_ascii_alphanumeric() || b"._-@".contains(&octet);
    (1..=DEVICE_MAX).contains(&name.len()) && name.bytes().all(is_fine)
}

/// Default mark and table number, "lh".
const MARK: u32 = 0x6c68;
/// `IFNAMSIZ` without the terminating zero.
const DEVICE_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(capture: &Transparent) -> String {
        capture.check().unwrap_err().to_string()
    }

    #[test]
    fn invalid_settings_are_refused() {
        let base = Transparent::default;
        let own = rustix::process::geteuid().as_raw();
        for (capture, word) in [
            (
                Transparent {
                    arriving: false,
                    ..base()
                },
                "nothing is selected",
            ),
            (
                Transparent {
                    device: Some("a\"; drop".to_owned()),
                    ..base()
                },
                "not the name of an interface",
            ),
            (
                Transparent {
                    device: Some(String::new()),
                    ..base()
                },
                "not the name of an interface",
            ),
            (
                Transparent {
                    users: vec![own],
                    ..base()
                },
                "its own connections",
            ),
            (Transparent { mark: 0, ..base() }, "the mark"),
            (
                Transparent {
                    table: 254,
                    ..base()
                },
                "the table",
            ),
        ] {
            assert!(complaint(&capture).contains(word), "{capture:?}");
        }
        assert!(base().check().is_ok());
    }
}
