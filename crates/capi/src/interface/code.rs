//! Results of functions.

use lighthaul::Code;

/// Result of a function: `LH_OK`, `LH_END`, `LH_PENDING`, or the exit status of the command for the same failure.
pub type ResultCode = i32;

/// The function has succeeded.
pub const LH_OK: i32 = 0;
/// The stream has ended. This is no failure.
pub const LH_END: i32 = -1;
/// The work has not ended within the time limit. This is no failure.
pub const LH_PENDING: i32 = -2;
/// The request is invalid.
pub const LH_USAGE: i32 = 1;
/// The two sides do not understand each other.
pub const LH_PROTOCOL: i32 = 2;
/// The source or the target cannot be opened.
pub const LH_OPEN: i32 = 3;
/// The network failed; a retry may succeed.
pub const LH_NETWORK: i32 = 10;
/// Reading or writing a file failed.
pub const LH_IO: i32 = 11;
/// The received data differ from the sent data; nothing was published.
pub const LH_INTEGRITY: i32 = 12;
/// The key or the permission is missing.
pub const LH_PERMISSION: i32 = 13;
/// The work was cancelled.
pub const LH_INTERRUPTED: i32 = 20;
/// Some entries of a copy failed; see `lh_transfer_failures()`.
pub const LH_PARTIAL: i32 = 23;
/// Source files changed while they were sent.
pub const LH_CHANGED: i32 = 24;
/// Some items were not deleted, because the deletion limit was reached.
pub const LH_DELETE_LIMIT: i32 = 25;
/// The peer was silent for too long.
pub const LH_TIMED_OUT: i32 = 30;
/// A deadline or a reservation was refused.
pub const LH_REFUSED: i32 = 40;
/// Internal error: a bug in the library.
pub const LH_INTERNAL: i32 = 70;
/// The daemon is being stopped; a retry may succeed.
pub const LH_STOPPING: i32 = 75;

/// Returns the result of a call.
pub(crate) fn result(done: Result<(), Code>) -> ResultCode {
    done.map_or_else(|code| i32::from(code as u8), |()| LH_OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_exit_statuses_of_the_command() {
        let pairs = [
            (Code::Usage, LH_USAGE),
            (Code::Protocol, LH_PROTOCOL),
            (Code::Open, LH_OPEN),
            (Code::Network, LH_NETWORK),
            (Code::Io, LH_IO),
            (Code::Integrity, LH_INTEGRITY),
            (Code::Permission, LH_PERMISSION),
            (Code::Interrupted, LH_INTERRUPTED),
            (Code::Partial, LH_PARTIAL),
            (Code::Changed, LH_CHANGED),
            (Code::DeleteLimit, LH_DELETE_LIMIT),
            (Code::TimedOut, LH_TIMED_OUT),
            (Code::Refused, LH_REFUSED),
            (Code::Internal, LH_INTERNAL),
            (Code::Stopping, LH_STOPPING),
        ];
        assert_eq!(pairs.len(), Code::ALL.len());
        for (code, number) in pairs {
            assert_eq!(result(Err(code)), number, "{code:?}");
        }
    }
}
