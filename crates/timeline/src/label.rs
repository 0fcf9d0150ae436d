//! Times and rates as text.

use jiff::tz::Offset;
use lighthaul_base::Rate;
use lighthaul_booking_client::json::Timestamp;

/// Formats a time in UTC, by a format of `strftime`.
pub fn written(at: Timestamp, form: &str) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(at.0));
    let at = at.unwrap_or(jiff::Timestamp::MAX);
    Offset::UTC.to_datetime(at).strftime(form).to_string()
}

/// Formats a time in UTC, with milliseconds if it is not a whole second.
pub fn shown(at: Timestamp) -> String {
    let form = if at.0.is_multiple_of(1_000_000_000) {
        "%Y-%m-%d %H:%M:%SZ"
    } else {
        "%Y-%m-%d %H:%M:%S%.3fZ"
    };
    written(at, form)
}

/// Formats a rate with its unit, without trailing zeros.
pub fn rate(bps: u64) -> String {
    let Some(rate) = Rate::from_bps(bps) else {
        return "0".to_owned();
    };
    let text = rate.to_string();
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!(
                "{} {unit}",
                number.trim_end_matches('0').trim_end_matches('.')
            )
        }
        _ => text,
    }
}
