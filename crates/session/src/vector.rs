//! TRC vectors in files: as text, as TOML, or as lines of JSON.

use lighthaul_base::Trc;
use lighthaul_base::config_fault::fault_in;
use lighthaul_base::trc::{STEPS_MAX, TrcError, parse_step};
use serde::Deserialize;

use crate::error::Error;
use crate::fault::Fault;

/// Parses a vector: `0s-2s 400Mb/s, 2s-5s 900Mb/s`, or `[[step]]` tables with `from`, `till` and
/// `rate`, or a JSON object with these on each line. Error messages begin with `name`.
pub fn parse(name: &str, text: &str) -> Result<Trc, Error> {
    let wrong = |why| Fault::Vector {
        name: name.to_owned(),
        why,
    };
    let trc = if text.trim_start().starts_with('{') {
        from_lines(text)
    } else if text.contains("[[") {
        from_toml(text)
    } else {
        text.parse().map_err(|error: TrcError| error.to_string())
    };
    Ok(trc.map_err(wrong)?)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    step: Vec<StepSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepSettings {
    from: String,
    till: String,
    rate: String,
}

fn from_toml(text: &str) -> Result<Trc, String> {
    let settings: Settings =
        toml::from_str(text).map_err(|why| fault_in(text, why.span(), why.message()))?;
    vector(settings.step)
}

fn from_lines(text: &str) -> Result<Trc, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let step = |(nth, line)| {
        let step = serde_json::from_str(line);
        step.map_err(|why| format!("step {nth}: {why}"))
    };
    let steps = (1..).zip(lines).take(STEPS_MAX + 1).map(step);
    vector(steps.collect::<Result<_, _>>()?)
}

fn vector(steps: Vec<StepSettings>) -> Result<Trc, String> {
    let step = |(nth, step): (_, StepSettings)| parse_step(nth, &step.from, &step.till, &step.rate);
    let steps = (1..).zip(steps).map(step).collect::<Result<_, _>>();
    let trc = steps.and_then(Trc::new);
    trc.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_formats_of_a_vector_are_read() {
        let plain = parse("--trc", "0s-2s 400Mb/s, 2s-5s 900Mb/s").unwrap();
        let toml = r#"
            [[step]]
            from = "0s"
            till = "2s"
            rate = "400Mb/s"
            [[step]]
            from = "2s"
            till = "5s"
            rate = "900Mb/s"
        "#;
        assert_eq!(parse("a.toml", toml).unwrap(), plain);
        let lines = r#"{"from":"0s","till":"2s","rate":"400Mb/s"}

            {"from":"2s","till":"5s","rate":"900Mb/s"}
        "#;
        assert_eq!(parse("a.json", lines).unwrap(), plain);
    }

    #[test]
    fn error_names_the_file_and_the_step() {
        let step = r#"{"from":"0s","till":"2s","rate":"400Mb/s"}"#;
        for text in [
            format!("{step}\n{step}"),
            format!("{step}\n{{}}"),
            "0s-2s 400Mb/s, 1s-5s 900Mb/s".to_owned(),
            "[[step]]\nfrom='0s'\ntill='1s'\nrate='1G'\n[[step]]\nfrom='1s'\ntill='2s'\nrate='0G'"
                .to_owned(),
        ] {
            let says = parse("night.trc", &text).unwrap_err().to_string();
            assert!(
                says.contains("night.trc") && says.contains("step 2"),
                "{says}"
            );
        }
        for text in ["", "{", "[[", "[[step]]\nfrom = 1"] {
            assert!(parse("night.trc", text).is_err(), "{text}");
        }
    }
}
