//! The daemon's log, on standard error.
//!
//! [`start`] installs the subscriber for the whole process; [`Log`] keeps it and sends pending
//! traces at the end. The variable `LIGHTHAUL_LOG` filters events. `Lines` writes each event as one
//! line of bounded length, as text or JSON. Control characters are escaped, so a name that a peer
//! sends can neither forge a line nor control a terminal. Rotation is left to the service manager.

use std::env;
use std::io::{self, Write, stderr};

use lighthaul_base::escape::{LINE_MAX, TEXT_MAX, escape, escape_json};
use lighthaul_session::error::Error;
use serde_json::Value;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use crate::error::Fault;
#[cfg(feature = "otel")]
use crate::traces::Traces;

/// Environment variable with the filter of the log, as in `debug` or `warn,lighthaul_daemon=debug`.
const FILTER: &str = "LIGHTHAUL_LOG";

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines of text.
    Text,
    /// A JSON object in each line.
    Json,
}

/// Log and traces of the process. Dropping it sends pending traces.
#[derive(Debug)]
pub struct Log {
    #[cfg(feature = "otel")]
    _traces: Option<Traces>,
}

/// Logs to standard error from now on.
pub fn start(format: Format) -> Result<Log, Error> {
    let filter = env::var(FILTER).unwrap_or_else(|_| "info".to_owned());
    let filter: Targets = filter.parse().map_err(|e: ParseError| {
        let why = e.to_string();
        Fault::LogFilter {
            name: FILTER,
            value: filter.clone(),
            why,
        }
    })?;
    let layer = fmt::layer().with_target(false);
    let layer = layer.with_writer(move || Lines {
        format,
        to: stderr(),
    });
    let layer = match format {
        Format::Text => layer.with_ansi(false).boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    };
    let registry = registry().with(layer.with_filter(filter));
    #[cfg(feature = "otel")]
    let traces = Traces::start()?;
    #[cfg(feature = "otel")]
    let registry = registry.with(traces.as_ref().map(Traces::layer));
    registry.try_init().map_err(|e| Fault::Log(e.to_string()))?;
    Ok(Log {
        #[cfg(feature = "otel")]
        _traces: traces,
    })
}

/// Writer that escapes each event to one line, since messages and spans may quote a peer.
struct Lines<W> {
    format: Format,
    to: W,
}

impl<W: Write> Write for Lines<W> {
    /// Receives one event, which the formatter writes in one call.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let line = match self.format {
            Format::Text => escape(text, LINE_MAX).into_owned(),
            Format::Json => json_line(text),
        };
        self.to.write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns a JSON object as one escaped line. If it is too long, every string is truncated.
fn json_line(text: &str) -> String {
    if text.len() <= LINE_MAX {
        return escape_json(text).into_owned();
    }
    let mut event = serde_json::from_str(text).unwrap_or(Value::Null);
    cut(&mut event);
    escape_json(&event.to_string()).into_owned()
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) => *text = escape(text, TEXT_MAX).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(cut),
        Value::Object(fields) => fields.values_mut().for_each(cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_base::escape::is_hidden;

    use super::*;

    /// What is written of an event that says `text`, and the event as JSON.
    fn logged(format: Format, text: &str) -> String {
        let mut written = Vec::new();
        let event = match format {
            Format::Text => format!("WARN {text}\n"),
            Format::Json => {
                serde_json::json!({"level": "WARN", "message": text}).to_string() + "\n"
            }
        };
        let mut lines = Lines {
            format,
            to: &mut written,
        };
        lines.write_all(event.as_bytes()).unwrap();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn log_event_is_a_single_escaped_bounded_line() {
        let megabyte = "a\n".repeat(1 << 19);
        for text in ["x\nWARN forged", "\x1b[2J\u{9b}", "\u{202e}txt", &megabyte] {
            for format in [Format::Text, Format::Json] {
                let line = logged(format, text);
                let line = line.strip_suffix('\n').unwrap();
                assert!(!line.contains(is_hidden), "{line:.200}");
                assert!(line.len() <= LINE_MAX, "{}", line.len());
                if matches!(format, Format::Json) {
                    let event: Value = serde_json::from_str(line).unwrap();
                    assert_eq!(event["level"], "WARN");
                }
            }
        }
    }
}
