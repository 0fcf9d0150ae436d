//! Export of sessions as OpenTelemetry traces to `OTEL_EXPORTER_OTLP_ENDPOINT` (OTLP over HTTP).
//!
//! Names and messages may quote a peer, so each is escaped and truncated like a line of the log.

use std::env;
use std::time::Duration;

use lighthaul_base::escape::{TEXT_MAX, escape};
use lighthaul_session::error::Error;
use opentelemetry::trace::{Status, TracerProvider};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{self, SdkTracerProvider, SpanData, Tracer};
use tracing_opentelemetry::OpenTelemetryLayer;

use crate::error::Fault;
use crate::telemetry;

/// Environment variable of the OpenTelemetry standard. If it is unset, nothing is sent.
pub(crate) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Exporter of traces. Dropping it sends pending traces.
#[derive(Debug)]
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts the exporter if an endpoint is set.
    pub(crate) fn start() -> Result<Option<Self>, Error> {
        if env::var_os(ENDPOINT).is_none() {
            return Ok(None);
        }
        telemetry::prepare();
        let exporter =
            SpanExporter::builder()
                .with_http()
                .build()
                .map_err(|e| Fault::Telemetry {
                    endpoint: ENDPOINT,
                    why: e.to_string(),
                })?;
        let resource = Resource::builder().with_service_name("lighthaul").build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Escaped(exporter))
            .with_resource(resource)
            .build();
        Ok(Some(Self(provider)))
    }

    /// Returns the layer that collects spans from the log.
    pub(crate) fn layer<S>(&self) -> OpenTelemetryLayer<S, Tracer>
    where
        S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    {
        tracing_opentelemetry::layer().with_tracer(self.0.tracer("lighthaul"))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // the process ends, and a failure has no receiver
        self.0.shutdown().ok();
    }
}

/// Exporter that escapes the text of spans.
#[derive(Debug)]
struct Escaped<E>(E);

impl<E: trace::SpanExporter> trace::SpanExporter for Escaped<E> {
    fn export(&self, mut batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        batch.iter_mut().for_each(escape_span);
        self.0.export(batch)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn escape_span(span: &mut SpanData) {
    span.name = escape(&span.name, TEXT_MAX).into_owned().into();
    escape_values(&mut span.attributes);
    for event in &mut span.events.events {
        event.name = escape(&event.name, TEXT_MAX).into_owned().into();
        escape_values(&mut event.attributes);
    }
    if let Status::Error { description } = &mut span.status {
        *description = escape(description, TEXT_MAX).into_owned().into();
    }
}

fn escape_values(values: &mut [KeyValue]) {
    let harmless =
        |text: &mut StringValue| *text = escape(text.as_str(), TEXT_MAX).into_owned().into();
    for KeyValue { value, .. } in values {
        if let Value::String(text) = value {
            harmless(text);
        } else if let Value::Array(Array::String(texts)) = value {
            texts.iter_mut().for_each(harmless);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use lighthaul_base::escape::is_hidden;
    use opentelemetry::InstrumentationScope;
    use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind};
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};

    use super::*;

    #[test]
    fn span_text_is_escaped_and_bounded() {
        let foreign = format!("\x1b[2J\n\u{202e}{}", "x".repeat(1 << 20));
        let values = || {
            let texts: Vec<StringValue> = vec![foreign.clone().into()];
            vec![
                KeyValue::new("who", foreign.clone()),
                KeyValue::new("all", Value::Array(texts.into())),
            ]
        };
        let mut events = SpanEvents::default();
        let now = SystemTime::UNIX_EPOCH;
        events
            .events
            .push(Event::new(foreign.clone(), now, values(), 0));
        let mut span = SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: foreign.clone().into(),
            start_time: now,
            end_time: now,
            attributes: values(),
            dropped_attributes_count: 0,
            events,
            links: SpanLinks::default(),
            status: Status::error(foreign.clone()),
            instrumentation_scope: InstrumentationScope::default(),
        };
        escape_span(&mut span);
        let Status::Error { description } = &span.status else {
            panic!("{:?}", span.status);
        };
        let event = &span.events.events[0];
        let values = span.attributes.iter().chain(&event.attributes);
        let values = values.map(|pair| pair.value.as_str().into_owned());
        let texts = [&span.name, description, &event.name].map(ToString::to_string);
        for text in values.chain(texts) {
            // an array is written with brackets around it
            assert!(
                !text.contains(is_hidden) && text.len() <= TEXT_MAX + 4,
                "{text:.100}"
            );
        }
    }
}
