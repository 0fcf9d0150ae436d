//! Parsers of quantities.

use std::time::Duration;

use lighthaul_base::{Rate, Size};

/// Parses a rate, such as `900Mb/s`.
pub fn rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|why| format!("{text}: {why}"))
}

/// Parses a size, such as `450MB` or `2GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let size: Size = text.parse().map_err(|why| format!("{text}: {why}"))?;
    Ok(size.0)
}

/// Parses a duration up to an hour, such as `100ms`, `1.5s`, `250us`, `10ns` or `0`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid time {text:?}: write it as 100ms, 1.5s or 250us");
    let (number, unit) = split(text);
    let scale = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" if number == "0" => 1.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let nanos = (number * scale * 1e9).round();
    if (0.0..=3.6e12).contains(&nanos) {
        Ok(Duration::from_nanos((nanos as i64).unsigned_abs()))
    } else {
        Err(format!("{text:?} is longer than an hour"))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_units() {
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for text in ["", "5", "-1ms", "1h", "2000000s", "1.2.3s"] {
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
