//! The daemon's log, on standard error.

use std::env;
use std::io::stderr;

use lighthaul_transfer::error::{Code, Error};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use crate::args::LogFormat;
#[cfg(feature = "otel")]
use crate::traces::Traces;

/// The variable that says what is logged, as in `debug` or `warn,lighthaul_daemon=debug`.
const FILTER: &str = "LIGHTHAUL_LOG";

/// The log; what is on its way to others is sent when this is dropped.
#[derive(Debug)]
pub(crate) struct Log {
    #[cfg(feature = "otel")]
    _traces: Option<Traces>,
}

/// Logs to standard error from now on.
pub(crate) fn start(format: LogFormat) -> Result<Log, Error> {
    let filter = env::var(FILTER).unwrap_or_else(|_| "info".to_owned());
    let filter: Targets = filter.parse().map_err(|e| {
        let text = format!("{FILTER}={filter} makes no sense: {e}");
        Error::new(Code::Usage, text)
    })?;
    let layer = fmt::layer().with_writer(stderr).with_target(false);
    let layer = match format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let registry = registry().with(layer.with_filter(filter));
    #[cfg(feature = "otel")]
    let traces = Traces::start()?;
    #[cfg(feature = "otel")]
    let registry = registry.with(traces.as_ref().map(Traces::layer));
    registry
        .try_init()
        .map_err(|e| Error::new(Code::Usage, format!("the log cannot be started: {e}")))?;
    Ok(Log {
        #[cfg(feature = "otel")]
        _traces: traces,
    })
}
