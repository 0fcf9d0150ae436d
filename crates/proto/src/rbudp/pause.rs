//! Requests of an RBUDP+ receiver to pause.

use core::time::Duration;

/// Parameters of pauses, on which both sides agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackConfig {
    /// Round-trip time of the path.
    pub rtt: Duration,
    /// Maximum length of a pause, and maximum time in advance of a request.
    pub pause_max: Duration,
}

impl FeedbackConfig {
    /// True if the parameters are within their limits.
    pub fn is_sane(&self) -> bool {
        self.rtt <= RTT_MAX && !self.pause_max.is_zero() && self.pause_max <= PAUSE_MAX
    }
}

/// Request to pause, in times relative to the sending of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Time for which the receiver still accepts data.
    pub after: Duration,
    /// Length of the pause after that.
    pub len: Duration,
}

impl Pause {
    /// No pause: the sender may transmit.
    pub const NONE: Self = Self {
        after: Duration::ZERO,
        len: Duration::ZERO,
    };
}

/// Message of the receiver to the sender about pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMessage {
    /// Pause for a predicted absence.
    Pause(Pause),
    /// Window of the receiver's socket: `after` is the time until the socket is full, and `len` the maximum pause
    /// after that. It replaces an earlier window, even if its pause has begun. A `len` of zero withdraws the window.
    Window(Pause),
}

/// Upper limit of [`FeedbackConfig::pause_max`].
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Upper limit of [`FeedbackConfig::rtt`].
const RTT_MAX: Duration = Duration::from_mins(1);
