//! Metrics of a monitor: served to Prometheus, and exported to OpenTelemetry.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use lighthaul_daemon::exporter::{self, MetricsPage};
use lighthaul_monitor::metrics::MonitorMetrics;
use lighthaul_session::error::Error;

use crate::error::Fault;
#[cfg(feature = "otel")]
use crate::measurements::Measurements;

/// Export of metrics. Dropping it sends pending ones.
#[derive(Debug)]
pub struct MetricsExport {
    /// Address at which Prometheus reads the metrics, if any.
    pub address: Option<SocketAddr>,
    #[cfg(feature = "otel")]
    _measurements: Option<Measurements>,
}

/// Serves `metrics` at an address, and sends them to a collector, if these are configured.
pub fn export(
    metrics: &Arc<MonitorMetrics>,
    address: Option<SocketAddr>,
) -> Result<MetricsExport, Error> {
    let serve = |address| {
        let page = Arc::new(Page(Arc::clone(metrics)));
        exporter::start(address, page).map_err(|error| Fault::Metrics { address, error })
    };
    Ok(MetricsExport {
        address: address.map(serve).transpose()?,
        #[cfg(feature = "otel")]
        _measurements: Measurements::start(metrics)?,
    })
}

/// Page that the exporter serves.
#[derive(Debug)]
struct Page(Arc<MonitorMetrics>);

impl MetricsPage for Page {
    fn page(&self) -> Result<String, fmt::Error> {
        self.0.page()
    }
}
