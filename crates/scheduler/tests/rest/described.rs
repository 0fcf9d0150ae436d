//! Comparison of `/openapi.json` with real answers.

use std::collections::BTreeSet;

use lighthaul_booking_client::json::NewReservation;
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_scheduler::api::router::openapi;
use serde_json::{Value, json};

use crate::test_server::{TestServer, ahead, bytes};

fn document() -> Value {
    serde_json::to_value(openapi()).unwrap()
}

/// Returns true if `value` matches `schema` in types, keys and alternatives.
fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let found = document
            .pointer(reference.strip_prefix('#').unwrap())
            .ok_or(reference)?;
        return fits(document, found, value);
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(schemas) = schema[several].as_array() {
            let fit = schemas
                .iter()
                .any(|schema| fits(document, schema, value).is_ok());
            return fit
                .then_some(())
                .ok_or_else(|| format!("{value} is none of {schema}"));
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fits(document, part, value)?;
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    };
    let kinds = schema["type"].as_array().cloned();
    let kinds = kinds.unwrap_or_else(|| vec![schema["type"].clone()]);
    // a schema without a type matches any value
    if !kinds.iter().any(|kind| kind.as_str().is_none_or(is)) {
        return Err(format!("{value} is no {}", schema["type"]));
    }
    if let Some(names) = schema["enum"].as_array()
        && !names.contains(value)
    {
        return Err(format!("{value} is none of {names:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return Err(format!("{name} is missing in {value}"));
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let schema = schema["properties"].get(name);
        let schema = schema.ok_or_else(|| format!("{name} is not described"))?;
        fits(document, schema, value).map_err(|why| format!("{name}: {why}"))?;
    }
    for value in value.as_array().into_iter().flatten() {
        fits(document, &schema["items"], value)?;
    }
    Ok(())
}

/// Returns the schema of one answer.
fn schema(document: &Value, method: &str, path: &str, status: u16) -> Value {
    let responses = &document["paths"][path][method.to_lowercase()]["responses"];
    let (response, kind) = if status < 300 {
        (&responses[status.to_string()], "application/json")
    } else {
        (
            &responses[format!("{}XX", status / 100)],
            "application/problem+json",
        )
    };
    assert!(
        response.is_object(),
        "{method} {path} {status} is not described"
    );
    response["content"][kind]["schema"].clone()
}

#[test]
fn every_route_is_described_with_its_authentication() {
    let document = document();
    let mut routes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, about) in methods.as_object().unwrap() {
            routes.insert(format!("{} {path}", method.to_uppercase()));
            assert!(about["summary"].is_string(), "{method} {path}");
            let open = ["/healthz", "/readyz", "/metrics"].contains(&path.as_str());
            assert_eq!(about["security"].is_array(), !open, "{method} {path}");
        }
    }
    let expected = "DELETE /v1/outages/{id}, DELETE /v1/reservations/{id}, GET /healthz, GET /metrics, GET /readyz, GET /v1/events, \
        GET /v1/jobs, GET /v1/jobs/{id}, GET /v1/jobs/{id}/events, GET /v1/jobs/{id}/log, GET /v1/links, GET /v1/links/{name}/calendar, GET /v1/outages, GET /v1/reservations, GET /v1/reservations/{id}, \
        GET /v1/topology, POST /v1/jobs, POST /v1/jobs/{id}/cancel, POST /v1/jobs/{id}/retry, POST /v1/outages, POST /v1/quotes, POST /v1/reservations, POST /v1/reservations/{id}/commit, \
        POST /v1/reservations/{id}/extend, POST /v1/reservations/{id}/provision, POST /v1/reservations/{id}/release, \
        POST /v1/reservations/{id}/shrink";
    assert_eq!(routes.into_iter().collect::<Vec<_>>().join(", "), expected);
    assert_eq!(
        document["components"]["securitySchemes"]["bearer"]["scheme"],
        json!("bearer")
    );
}

#[test]
fn description_conforms_to_openapi() {
    let document = document();
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, about) in methods.as_object().unwrap() {
            let name = about["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{name} is the name of two");
            for (status, response) in about["responses"].as_object().unwrap() {
                let description = response["description"].as_str().unwrap_or_default();
                assert!(!description.is_empty(), "{method} {path} {status}");
            }
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for (field, about) in schema["properties"].as_object().into_iter().flatten() {
            assert!(
                is_described(about),
                "{name}.{field} is not reports: {about}"
            );
        }
    }
    let priority = &document["components"]["schemas"]["NewReservation"]["properties"]["priority"];
    assert_eq!(priority["maximum"], json!(255));
}

/// Returns true if a field has a description, also within alternatives or behind a reference.
fn is_described(about: &Value) -> bool {
    let reports = |about: &Value| about["description"].is_string();
    let mut several = about["oneOf"].as_array().into_iter().flatten();
    reports(about) || several.any(reports)
}

#[test]
fn every_answer_matches_the_description() {
    let test_server = TestServer::new();
    let (_, _, served) = test_server.raw("GET", "/openapi.json", "", "");
    let served: Value = serde_json::from_str(&served).unwrap();
    assert_eq!(served, document());
    let ada = test_server.client("ada");
    let request = NewReservation {
        start: Some(ahead(600)),
        ..bytes(1_000_000)
    };
    let id = ada.reserve(&request).unwrap().id;
    let wanted = r#"{"from": "a", "to": "c", "size": "1GB", "rate_max": "1Gb/s", "commit": true}"#;
    let outage = format!(r#"{{"link": "d-a", "till": "{}"}}"#, ahead(60));
    let job = r#"{"sources": ["lh://near/a"], "target": "lh://far/", "every": "1d", "options": {"rate": "1Gb/s"}}"#;
    let long = r#"{"size": 2000000}"#;
    let short = r#"{"size": 1000000}"#;
    for (method, path, token, body, status) in [
        ("POST", "/v1/reservations", "ada", wanted, 201),
        ("GET", "/v1/reservations", "olga", "", 200),
        ("GET", "/v1/reservations/{id}", "ada", "", 200),
        ("POST", "/v1/reservations/{id}/commit", "ada", "", 200),
        ("POST", "/v1/reservations/{id}/extend", "ada", long, 200),
        ("POST", "/v1/reservations/{id}/shrink", "ada", short, 200),
        ("POST", "/v1/reservations/{id}/provision", "ada", "", 409),
        (
            "POST",
            "/v1/reservations/{id}/release",
            "ada",
            r#"{"why": "done"}"#,
            200,
        ),
        ("DELETE", "/v1/reservations/{id}", "ada", "", 409),
        ("POST", "/v1/quotes", "ada", wanted, 200),
        ("GET", "/v1/links", "ada", "", 200),
        ("GET", "/v1/topology", "ada", "", 200),
        ("GET", "/v1/links/a-b/calendar", "bob", "", 200),
        ("POST", "/v1/outages", "olga", &outage, 201),
        ("GET", "/v1/outages", "ada", "", 200),
        ("DELETE", "/v1/outages/{id}", "olga", "", 404),
        ("POST", "/v1/jobs", "olga", job, 201),
        ("POST", "/v1/jobs", "ada", job, 403),
        ("GET", "/v1/jobs", "olga", "", 200),
        ("GET", "/v1/jobs/{id}", "olga", "", 200),
        ("GET", "/v1/jobs/{id}/events", "olga", "", 200),
        ("GET", "/v1/jobs/{id}/log", "olga", "", 200),
        ("POST", "/v1/jobs/{id}/retry", "olga", "", 409),
        ("POST", "/v1/jobs/{id}/cancel", "olga", "", 200),
        ("GET", "/healthz", "", "", 200),
        ("GET", "/readyz", "", "", 200),
        ("POST", "/v1/reservations", "eve", wanted, 401),
    ] {
        let at = path.replace("{id}", &id.to_string());
        let (got, _, text) = test_server.raw(method, &at, token, body);
        assert_eq!(got, status, "{method} {path}: {text}");
        let value: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {text}: {e}"));
        let route = path.replace("/a-b/", "/{name}/");
        let schema = schema(&served, method, &route, status);
        fits(&served, &schema, &value)
            .unwrap_or_else(|why| panic!("{method} {path}: {why}\n{text}"));
    }
    assert_eq!(
        ada.reservation(id).unwrap().state,
        ReservationState::Released
    );
}

#[test]
fn metrics_are_in_prometheus_format() {
    let test_server = TestServer::new();
    test_server
        .client("ada")
        .reserve(&bytes(1_000_000))
        .unwrap();
    test_server.problem("GET", "/v1/reservations", "eve", "");
    let (status, head, page) = test_server.raw("GET", "/metrics", "", "");
    assert_eq!(status, 200);
    assert!(head.contains("openmetrics-text"), "{head}");
    for line in [
        r#"lighthaul_scheduler_requests_total{method="POST",route="/v1/reservations",status="201"} 1"#,
        r#"lighthaul_scheduler_requests_total{method="GET",route="/v1/reservations",status="401"} 1"#,
        r#"lighthaul_scheduler_changes_total{outcome="made"} 1"#,
        "lighthaul_scheduler_request_duration_seconds_count",
        "# EOF",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
}
