//! Events of the machines of all protocols.

use lighthaul_io::drive::Next;
use lighthaul_io::error::Error as World;
use lighthaul_proto::{rbudp, sabul, stripe, vbtp};

/// Event of a sender or receiver of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineEvent {
    /// A pass over the missing packets begins: its number, from 1, and its packets.
    Round(u16, u64),
    /// The sender has sent the given pass and asked for missing packets, or the receiver has answered the pass.
    Asked(u16),
    /// The sender has no datagram to send for the moment.
    Idle,
    /// The sender has left the circuit, which another object may use.
    Released,
    /// True: the receiver asks for a pause within a pass. False: the pause ends.
    Paused(bool),
    /// A whole pass brought no new packet.
    Barren,
    /// The object is complete.
    Complete,
    /// The peer violated the protocol, for the given reason.
    Failed(String),
}

impl MachineEvent {
    /// Returns the driver's next step, if the owner of the transfer has no rule of its own for the event.
    pub fn next(self) -> Result<Next, World> {
        match self {
            Self::Round(..) | Self::Asked(_) | Self::Idle | Self::Released | Self::Paused(_) => {
                Ok(Next::Continue)
            }
            Self::Barren => Ok(Next::Divert),
            Self::Complete => Ok(Next::Finish),
            Self::Failed(why) => Err(World::PeerMisbehaved(why)),
        }
    }
}

impl From<rbudp::SenderEvent> for MachineEvent {
    fn from(event: rbudp::SenderEvent) -> Self {
        use rbudp::SenderEvent as Event;
        match event {
            Event::Round { number, packets } => Self::Round(number, packets),
            Event::Asked { round } => Self::Asked(round),
            Event::Paused(on) => Self::Paused(on),
            Event::Barren { .. } => Self::Barren,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<rbudp::ReceiverEvent> for MachineEvent {
    fn from(event: rbudp::ReceiverEvent) -> Self {
        use rbudp::ReceiverEvent as Event;
        match event {
            Event::Tallied { round, .. } => Self::Asked(round),
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<stripe::SenderEvent> for MachineEvent {
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

impl From<stripe::ReceiverEvent> for MachineEvent {
    fn from(event: stripe::ReceiverEvent) -> Self {
        match event {
            stripe::ReceiverEvent::Complete => Self::Complete,
        }
    }
}

impl From<vbtp::SenderEvent> for MachineEvent {
    fn from(event: vbtp::SenderEvent) -> Self {
        use vbtp::SenderEvent as Event;
        match event {
            Event::Asked => Self::Idle,
            Event::Released { .. } => Self::Released,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<vbtp::ReceiverEvent> for MachineEvent {
    fn from(event: vbtp::ReceiverEvent) -> Self {
        use vbtp::ReceiverEvent as Event;
        match event {
            Event::Answered { .. } => Self::Idle,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<sabul::SenderEvent> for MachineEvent {
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

impl From<sabul::ReceiverEvent> for MachineEvent {
    fn from(event: sabul::ReceiverEvent) -> Self {
        use sabul::ReceiverEvent as Event;
        match event {
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}
