//! Parsers of quantities.

use std::time::Duration;

use lighthaul_base::{Rate, Size, duration};

/// Parses a rate, such as `900Mb/s`.
pub fn rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|why| format!("{text}: {why}"))
}

/// Parses a size, such as `450MB` or `2GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let size: Size = text.parse().map_err(|why| format!("{text}: {why}"))?;
    Ok(size.0)
}

/// Parses a duration up to an hour, such as `100ms`, `1.5s`, `250us` or `0`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text).map_err(|why| format!("{text:?}: {why}"))?;
    if time > HOUR {
        return Err(format!(
            "{text:?}: a duration of a plan is at most an hour, as in 100ms"
        ));
    }
    Ok(time)
}

/// Parses a probability, such as `0.01%` or `0.0001`. Returns parts per billion.
pub fn chance_ppb(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid probability {text:?}: write it as 0.01% or 0.0001, up to 100%");
    let (number, unit) = split(text);
    let scale = match unit {
        "%" => 1e7,
        "" => 1e9,
        _ => return Err(wrong()),
    };
    let ppb = number.parse::<f64>().map_err(|_| wrong())? * scale;
    if (0.0..=1e9).contains(&ppb) {
        Ok((ppb.round() as i64).unsigned_abs())
    } else {
        Err(wrong())
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Longest duration of a plan.
const HOUR: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_units() {
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for text in ["", "5", "-1ms", "2h", "2000000s", "1.2.3s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn probabilities_are_parsed_as_percent_or_fraction() {
        assert_eq!(chance_ppb("0.01%"), Ok(100_000));
        assert_eq!(chance_ppb("0.5"), Ok(500_000_000));
        assert_eq!(chance_ppb("100%"), Ok(1_000_000_000));
        for text in ["", "1.1", "101%", "-1%", "few"] {
            assert!(chance_ppb(text).is_err(), "{text}");
        }
    }
}
