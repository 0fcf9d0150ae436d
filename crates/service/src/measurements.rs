//! Export of metrics as OpenTelemetry measurements to `OTEL_EXPORTER_OTLP_ENDPOINT` (OTLP over HTTP).
//!
//! A name is that of Prometheus with the prefix `lighthaul.`, and units are those of UCUM. The standard variable
//! `OTEL_METRIC_EXPORT_INTERVAL` sets the interval in milliseconds, 60000 without it.

use std::env;
use std::sync::Arc;

use lighthaul_monitor::metrics::{Family, MonitorMetrics};
use lighthaul_session::error::Error;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter, MeterProvider};
use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use crate::error::Fault;
use crate::telemetry;
use crate::traces::ENDPOINT;

/// Exporter of measurements. Dropping it sends pending ones.
#[derive(Debug)]
pub(crate) struct Measurements(SdkMeterProvider);

impl Measurements {
    /// Starts the exporter if an endpoint is set.
    pub(crate) fn start(metrics: &Arc<MonitorMetrics>) -> Result<Option<Self>, Error> {
        if env::var_os(ENDPOINT).is_none() {
            return Ok(None);
        }
        telemetry::prepare();
        let exporter = MetricExporter::builder().with_http().build();
        let exporter = exporter.map_err(|e| Fault::Telemetry {
            endpoint: ENDPOINT,
            why: e.to_string(),
        })?;
        let resource = Resource::builder().with_service_name("lighthaul").build();
        let provider = SdkMeterProvider::builder()
            .with_periodic_exporter(exporter)
            .with_resource(resource)
            .build();
        let meter = provider.meter("lighthaul");
        for family in MonitorMetrics::descriptions() {
            register(&meter, &family, Arc::clone(metrics));
        }
        Ok(Some(Self(provider)))
    }
}

impl Drop for Measurements {
    fn drop(&mut self) {
        // the process ends, and a failure has no receiver
        self.0.shutdown().ok();
    }
}

/// Registers a metric, whose values are read at each export.
fn register(meter: &Meter, family: &Family, metrics: Arc<MonitorMetrics>) {
    let known = family.name;
    let name = format!("lighthaul.{known}");
    let (help, unit) = (family.help, unit(family.unit));
    let observe = move |to: &dyn AsyncInstrument<f64>| {
        let families = metrics.families();
        let Some(family) = families.into_iter().find(|family| family.name == known) else {
            return;
        };
        for point in family.points {
            let labels = point.labels.into_iter();
            let labels: Vec<_> = labels
                .map(|(name, value)| KeyValue::new(name, value))
                .collect();
            to.observe(point.value, &labels);
        }
    };
    if family.grows {
        let counter = meter.f64_observable_counter(name);
        let counter = counter.with_description(help).with_unit(unit);
        counter.with_callback(observe).build();
    } else {
        let gauge = meter.f64_observable_gauge(name);
        let gauge = gauge.with_description(help).with_unit(unit);
        gauge.with_callback(observe).build();
    }
}

/// Returns the UCUM code of a unit.
fn unit(name: &str) -> &'static str {
    match name {
        "seconds" => "s",
        "bytes" => "By",
        "bytes_per_second" => "By/s",
        _ => "",
    }
}
