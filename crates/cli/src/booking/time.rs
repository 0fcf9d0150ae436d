//! Times as text.

use jiff::tz::Offset;
use lighthaul_booking::json::Timestamp;

/// Returns a time in UTC, in a form of `strftime`.
pub(crate) fn written(at: Timestamp, form: &str) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(at.0));
    let at = at.unwrap_or(jiff::Timestamp::MAX);
    Offset::UTC.to_datetime(at).strftime(form).to_string()
}

/// Returns a time in UTC, to the millisecond if it is not a whole second.
pub(crate) fn shown(at: Timestamp) -> String {
    let form = if at.0.is_multiple_of(1_000_000_000) {
        "%Y-%m-%d %H:%M:%SZ"
    } else {
        "%Y-%m-%d %H:%M:%S%.3fZ"
    };
    written(at, form)
}
