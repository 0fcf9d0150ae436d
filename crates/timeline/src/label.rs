//! Rates as text.

use lighthaul_base::Rate;

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
