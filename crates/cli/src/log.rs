//! The daemon's log, on standard error.

use std::env;
use std::io::stderr;

use lighthaul_transfer::error::{Code, Error};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use crate::args::LogFormat;

/// The variable that says what is logged, as in `debug` or `warn,lighthaul_daemon=debug`.
const FILTER: &str = "LIGHTHAUL_LOG";

/// Logs to standard error from now on.
pub(crate) fn start(format: LogFormat) -> Result<(), Error> {
    let filter = env::var(FILTER).unwrap_or_else(|_| "info".to_owned());
    let filter: Targets = filter.parse().map_err(|e| {
        Error::new(
            Code::Usage,
            format!("{FILTER}={filter} makes no sense: {e}"),
        )
    })?;
    let layer = fmt::layer().with_writer(stderr).with_target(false);
    let layer = match format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let started = registry().with(layer.with_filter(filter)).try_init();
    started.map_err(|e| Error::new(Code::Usage, format!("the log cannot be started: {e}")))
}
