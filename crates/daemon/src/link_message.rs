//! Messages between two gateways about a link, before its pages flow.

pub(crate) use lighthaul_gateway::messages::Greeting;
use lighthaul_session::topic::Topic;
use serde::{Deserialize, Serialize};

/// Message about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// State of the link at one gateway, and the parameters that it supports.
    Greeting(Greeting),
}

impl Topic for Message {
    const NUMBER: u8 = 7;
    type Request = Greeting;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_round_trip() {
        for received in [None, Some(7)] {
            let greeting = Message::Greeting(Greeting {
                link: [3; 16],
                received,
                window: 1 << 20,
                datagram_len: 1472,
            });
            assert_eq!(Message::decode(&greeting.encode()), Ok(greeting));
        }
    }
}
