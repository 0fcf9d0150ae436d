//! What is to be captured.

use crate::kernel::error::Error;
use crate::ports::Ports;
use crate::prefix::Prefix;

/// What is to be captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transparent {
    /// Whether connections of other hosts are captured that come through this one.
    pub arriving: bool,
    /// The interface where they arrive; any if there is nothing here.
    pub device: Option<String>,
    /// The users of this host whose connections are captured, by number.
    pub users: Vec<u32>,
    /// Where captured connections go to; anywhere if there is nothing here.
    pub prefixes: Vec<Prefix>,
    /// The ports that they go to; any if there is nothing here.
    pub ports: Vec<Ports>,
    /// What captured packets are marked with.
    pub mark: u32,
    /// The routing table that keeps them on this host.
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
    /// Refuses what cannot be captured.
    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Misuse(text));
        if !self.arriving && self.users.is_empty() {
            return wrong(
                "nothing is to be captured: say what arrives, or whose programs".to_owned(),
            );
        }
        if let Some(device) = self.device.as_ref().filter(|device| !is_device(device)) {
            return wrong(format!(
                "{device:?} is no name of an interface: `ip link` lists them"
            ));
        }
        let own = rustix::process::geteuid().as_raw();
        if self.users.contains(&own) {
            return wrong(format!(
                "the gateway runs as user {own} itself, and would capture what it sends: run it as another user"
            ));
        }
        if self.mark == 0 || matches!(self.table, 0 | 253..=255) {
            return wrong(
                "a mark is not 0, and a table not one of the system's (0, 253 to 255)".to_owned(),
            );
        }
        Ok(())
    }
}

/// A name that can stand in a rule, and that an interface can have.
fn is_device(name: &str) -> bool {
    let is_fine = |octet: u8| octet.is_ascii_alphanumeric() || b"._-@".contains(&octet);
    (1..=DEVICE_MAX).contains(&name.len()) && name.bytes().all(is_fine)
}

/// "lh": the mark, and the number of the table.
const MARK: u32 = 0x6c68;
/// `IFNAMSIZ` without its end.
const DEVICE_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(capture: &Transparent) -> String {
        capture.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_captured_is_refused() {
        let base = Transparent::default;
        let own = rustix::process::geteuid().as_raw();
        for (capture, word) in [
            (
                Transparent {
                    arriving: false,
                    ..base()
                },
                "nothing is to be captured",
            ),
            (
                Transparent {
                    device: Some("a\"; drop".to_owned()),
                    ..base()
                },
                "no name of an interface",
            ),
            (
                Transparent {
                    device: Some(String::new()),
                    ..base()
                },
                "no name of an interface",
            ),
            (
                Transparent {
                    users: vec![own],
                    ..base()
                },
                "itself",
            ),
            (Transparent { mark: 0, ..base() }, "a mark"),
            (
                Transparent {
                    table: 254,
                    ..base()
                },
                "a table",
            ),
        ] {
            assert!(complaint(&capture).contains(word), "{capture:?}");
        }
        assert!(base().check().is_ok());
    }
}
