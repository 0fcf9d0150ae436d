//! Sessions as OpenTelemetry traces, sent to where `OTEL_EXPORTER_OTLP_ENDPOINT` says (OTLP over HTTP).

use std::env;

use lighthaul_transfer::error::{Code, Error};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use tracing_opentelemetry::OpenTelemetryLayer;

/// The standard's variable; without it nothing is sent.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// What sends traces; what is left is sent when this is dropped.
#[derive(Debug)]
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Gets ready to send, if somebody said where to.
    pub(crate) fn start() -> Result<Option<Self>, Error> {
        if env::var_os(ENDPOINT).is_none() {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().build().map_err(|e| {
            let text = format!("traces cannot be sent to {ENDPOINT}: {e}");
            Error::new(Code::Usage, text)
        })?;
        let resource = Resource::builder().with_service_name("lighthaul").build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Some(Self(provider)))
    }

    /// What takes part in the log.
    pub(crate) fn layer<S>(&self) -> OpenTelemetryLayer<S, Tracer>
    where
        S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    {
        tracing_opentelemetry::layer().with_tracer(self.0.tracer("lighthaul"))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // the process ends, and nobody is left to be told
        self.0.shutdown().ok();
    }
}
