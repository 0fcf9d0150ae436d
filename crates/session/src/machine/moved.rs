//! What the machines of all protocols tell, in one language.

use lighthaul_proto::{rbudp, sabul, stripe, vbtp};

/// What the owner of either machine gets to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A pass over what is missing begins: its number, from 1, and the packets that it sends.
    Round(u16, u64),
    /// That pass has left, and the receiver was asked what came; or there, it was answered.
    Asked(u16),
    /// There is nothing to send for the moment.
    Waits,
    /// The receiver wants a pause in the middle of a pass, or that is over.
    Quiet(bool),
    /// A whole pass brought nothing new.
    Barren,
    /// The object is there.
    Complete,
    /// The peer broke the protocol, in these words.
    Failed(String),
}

impl From<rbudp::SenderEvent> for Moved {
    fn from(event: rbudp::SenderEvent) -> Self {
        use rbudp::SenderEvent as Event;
        match event {
            Event::Round { number, packets } => Self::Round(number, packets),
            Event::Asked { round } => Self::Asked(round),
            Event::Paused(on) => Self::Quiet(on),
            Event::Barren { .. } => Self::Barren,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<rbudp::ReceiverEvent> for Moved {
    fn from(event: rbudp::ReceiverEvent) -> Self {
        use rbudp::ReceiverEvent as Event;
        match event {
            Event::Tallied { round, .. } => Self::Asked(round),
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<stripe::SenderEvent> for Moved {
    fn from(event: stripe::SenderEvent) -> Self {
        use stripe::SenderEvent as Event;
        match event {
            Event::Round { number, packets } => Self::Round(number, packets),
            Event::Asked { round } => Self::Asked(round),
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<stripe::ReceiverEvent> for Moved {
    fn from(event: stripe::ReceiverEvent) -> Self {
        match event {
            stripe::ReceiverEvent::Complete => Self::Complete,
        }
    }
}

impl From<vbtp::SenderEvent> for Moved {
    fn from(event: vbtp::SenderEvent) -> Self {
        use vbtp::SenderEvent as Event;
        match event {
            Event::Asked | Event::Released { .. } => Self::Waits,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<vbtp::ReceiverEvent> for Moved {
    fn from(event: vbtp::ReceiverEvent) -> Self {
        use vbtp::ReceiverEvent as Event;
        match event {
            Event::Answered { .. } => Self::Waits,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<sabul::SenderEvent> for Moved {
    fn from(event: sabul::SenderEvent) -> Self {
        use sabul::SenderEvent as Event;
        match event {
            Event::Passed => Self::Asked(1),
            Event::Barren => Self::Barren,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<sabul::ReceiverEvent> for Moved {
    fn from(event: sabul::ReceiverEvent) -> Self {
        use sabul::ReceiverEvent as Event;
        match event {
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}
