//! Flow of a contest.

use std::str::FromStr;
use std::time::Duration;

use lighthaul_proto::sabul::Mode;

/// Protocol of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowProtocol {
    /// SABUL's machines in the given mode.
    Sabul(Mode),
    /// The kernel's TCP with the given congestion control.
    Tcp(String),
}

/// Flow from the first host to the second.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Protocol of the flow.
    pub protocol: FlowProtocol,
    /// Start time of the flow.
    pub start: Duration,
}

impl FromStr for FlowProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sabul" => Ok(Self::Sabul(Mode::Paper)),
            "sabul-swift" => Ok(Self::Sabul(Mode::Swift)),
            "reno" | "bbr" | "cubic" => Ok(Self::Tcp(text.into())),
            other => Err(format!(
                "unknown protocol {other:?}: use sabul, sabul-swift, reno, bbr or cubic"
            )),
        }
    }
}
