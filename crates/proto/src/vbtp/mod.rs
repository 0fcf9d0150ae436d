//! Varying-Bandwidth Transport Protocol (section 4 of the VBLS paper): rates that follow a TRC vector, selective ARQ.
//!
//! Datagrams leave as fast as the circuit carries them at each moment (section 4.1). The receiver names what is missing
//! while the transfer runs, which is sent again on the circuit, and from time to time what has come, which only bounds
//! how far the sender may run ahead (section 4.2). When all has been sent and the circuit would lie idle until the answer
//! comes, or is over, it is released, and what is then missing crosses on the stream (sections 4.2 and 4.3).
//!
//! What the paper leaves open is done so:
//!
//! - A circuit keeps order, so a gap in the numbers is a loss. Resends are counted in numbers of their own, of which
//!   every datagram carries the count so far: the loss of a resend shows at the next datagram, too, without a timer.
//! - When nothing more can be sent, the sender asks (on the stream) what is missing of what it has sent. Losses that no
//!   later datagram gave away are found by that, those that a bounded list had no room for as well.
//! - A last few resends leave twice, as there is no time on the circuit to ask about them.
//! - A packet is placed where it belongs when it comes, so the receiver's resequencing buffer is a bound: how far from
//!   the first missing packet one may lie. ACKs name whole blocks, as these are what can be written.
//!
//! - [`config`]: what both sides agree on; [`wire`]: what crosses
//! - [`sender`], [`receiver`]: the two machines; [`peer`]: what an honest one never says
pub mod config;
pub mod peer;
pub mod receiver;
pub mod sender;
pub mod wire;

pub use config::{Config, Misuse, PACKETS_MAX};
pub use peer::PeerMisbehaved;
pub use receiver::{Receiver, ReceiverEvent};
pub use sender::{Sender, SenderEvent};
