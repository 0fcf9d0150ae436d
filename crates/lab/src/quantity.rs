//! Quantities as people write them.

use std::time::Duration;

use lighthaul_base::{Rate, Size};

/// Reads `900Mb/s`.
pub fn rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|why| format!("{text}: {why}"))
}

/// Reads `450MB` or `2GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let size: Size = text.parse().map_err(|why| format!("{text}: {why}"))?;
    Ok(size.0)
}

/// Reads `100ms`, `1.5s`, `250us`, `10ns` or `0`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time; one is written as in 100ms, 1.5s or 250us");
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

/// Reads `0.01%` or `0.0001` as parts of a thousand million.
pub fn chance_ppb(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is no chance; one is written as in 0.01% or 0.0001, up to 100%");
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
    fn times_read_as_people_write_them() {
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for text in ["", "5", "-1ms", "1h", "2000000s", "1.2.3s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn chances_read_as_people_write_them() {
        assert_eq!(chance_ppb("0.01%"), Ok(100_000));
        assert_eq!(chance_ppb("0.5"), Ok(500_000_000));
        assert_eq!(chance_ppb("100%"), Ok(1_000_000_000));
        for text in ["", "1.1", "101%", "-1%", "few"] {
            assert!(chance_ppb(text).is_err(), "{text}");
        }
    }
}
