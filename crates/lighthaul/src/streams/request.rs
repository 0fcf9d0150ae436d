//! Request for a stream: plain data, independent of the command line.

use std::time::Duration;

use lighthaul_base::{Rate, Size};
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;
use lighthaul_stream::frames::Frames;
use lighthaul_stream::message::{self, Messages, Objects};

use crate::fault::Fault;

/// Request for a stream. [`StreamRequest::to`] and [`StreamRequest::from`] set the defaults; change fields that differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamRequest {
    /// Pipe or file on another host. Messages are appended to a file. A pipe needs a reader first.
    pub place: Place,
    /// Side that sends.
    pub direction: Direction,
    /// Framing in the pipe or file of the other host.
    pub frames: Frames,
    /// Messages or objects.
    pub kind: StreamKind,
    /// Highest rate on the wire; none to measure the path.
    pub rate: Option<Rate>,
    /// Sends datagrams without encryption, if the other side agrees.
    pub plain: bool,
    /// Uses datagrams if the path lets them through.
    pub udp: bool,
}

/// Direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// This program sends.
    To,
    /// This program receives.
    From,
}

/// Kind of a stream.
#[derive(Clone, Debug)]
pub enum StreamKind {
    /// Small messages, each sent at once in one datagram. Lost messages are restored from repair symbols, or counted.
    Messages(MessageOptions),
    /// Larger objects at a known rate, in order and without loss.
    Objects(ObjectOptions),
}

/// Parameters of a stream of messages.
#[derive(Clone, Debug)]
pub struct MessageOptions {
    /// Forward error correction: `none`, `xor:N` or `rs:N+M`.
    pub code: String,
    /// Maximum time that a message waits for the rest of its block.
    pub linger: Duration,
    /// Age from which a message counts as late; none for no limit.
    pub deadline: Option<Duration>,
    /// Drops late messages.
    pub drop_late: bool,
}

/// Parameters of a stream of objects.
#[derive(Clone, Copy, Debug)]
pub struct ObjectOptions {
    /// Length of the longest object.
    pub size: Size,
    /// Objects per second.
    pub per_second: f64,
    /// Time to collect a payload, and also the time to send it.
    pub delay: Duration,
    /// Planned passes over the packets of a payload, each with one round trip.
    pub blasts: u8,
}

impl StreamRequest {
    /// Returns a request for a stream of messages to `place`, each after its length.
    pub fn to(place: Place) -> Self {
        Self::new(place, Direction::To)
    }

    /// Returns a request for a stream of messages from `place`, each after its length.
    pub fn from(place: Place) -> Self {
        Self::new(place, Direction::From)
    }

    fn new(place: Place, direction: Direction) -> Self {
        Self {
            place,
            direction,
            frames: Frames::Prefixed,
            kind: StreamKind::Messages(MessageOptions::default()),
            rate: None,
            plain: false,
            udp: true,
        }
    }

    /// Returns the request for the daemon.
    pub(crate) fn on_wire(&self) -> Result<message::StreamRequest, Error> {
        Ok(message::StreamRequest {
            path: self.place.path().to_vec(),
            to: self.direction == Direction::To,
            frames: self.frames,
            kind: match &self.kind {
                StreamKind::Messages(options) => message::StreamKind::Messages(options.on_wire()),
                StreamKind::Objects(options) => message::StreamKind::Objects(options.on_wire()?),
            },
        })
    }

    /// Refuses a message that the framing of the other host would split or join with others. `was_last` is true after a
    /// message that must be the last; returns true if this one is.
    pub(crate) fn check(&self, message: &[u8], was_last: bool) -> Result<bool, Error> {
        match self.frames {
            Frames::Lines if message.contains(&b'\n') => Err(Fault::LineFeed.into()),
            Frames::Lines | Frames::Prefixed => Ok(false),
            Frames::Fixed(most) => {
                let (len, expected) = (message.len(), most.get() as usize);
                if len > expected || was_last {
                    return Err(Fault::MessageLen { len, expected }.into());
                }
                Ok(len < expected)
            }
        }
    }
}

impl MessageOptions {
    fn on_wire(&self) -> Messages {
        Messages {
            code: self.code.clone(),
            linger_us: u32::try_from(self.linger.as_micros()).unwrap_or(u32::MAX),
            deadline_us: self.deadline.map(micros),
            drop: self.drop_late,
        }
    }
}

impl Default for MessageOptions {
    /// Returns options with one repair symbol for three messages, and no deadline.
    fn default() -> Self {
        Self {
            code: "xor:3".to_owned(),
            linger: Duration::from_millis(2),
            deadline: None,
            drop_late: false,
        }
    }
}

impl ObjectOptions {
    /// Returns parameters for objects of up to `size`, which may be a second old when they arrive.
    pub const fn new(size: Size, per_second: f64) -> Self {
        Self {
            size,
            per_second,
            delay: Duration::from_millis(500),
            blasts: 1,
        }
    }

    fn on_wire(&self) -> Result<Objects, Error> {
        // objects per million seconds, as the microseconds of a duration
        let scaled = Duration::try_from_secs_f64(self.per_second).map_err(|_| Fault::ObjectRate)?;
        Ok(Objects {
            object_len: self.size.0,
            micro_per_second: micros(scaled),
            delay_us: micros(self.delay),
            blasts: self.blasts,
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
