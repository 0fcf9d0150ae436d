//! Alert rules and dashboard in `dist`: Prometheus accepts the rules, and the metrics of both exist.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use lighthaul_testkit::lacks_tool;
use serde_json::Value;

use crate::project;

const RULES: &str = "dist/prometheus-alerts.yml";
const DASHBOARD: &str = "dist/grafana-dashboard.json";
/// Files that register metrics.
const SOURCES: [&str; 4] = [
    "crates/daemon/src/metrics.rs",
    "crates/daemon/src/link_metrics.rs",
    "crates/scheduler/src/api/metrics.rs",
    "crates/monitor/src/metrics.rs",
];
/// Suffixes that exporters and Prometheus add to a name, the outermost first.
const ENDS: [&str; 7] = [
    "_info",
    "_total",
    "_bucket",
    "_bytes_per_second",
    "_bytes",
    "_seconds",
    "",
];

#[test]
fn prometheus_accepts_the_alert_rules() {
    if lacks_tool("rules", "promtool") {
        return;
    }
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(project().join(RULES))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn every_metric_of_rules_and_dashboard_is_registered() {
    let read = |path: &str| fs::read_to_string(project().join(path)).unwrap();
    let sources = SOURCES.map(read).concat();
    let used: BTreeSet<String> = [RULES, DASHBOARD]
        .into_iter()
        .flat_map(|path| names(&read(path)))
        .collect();
    assert!(used.len() > 10, "{used:?}");
    let unknown: Vec<_> = used
        .iter()
        .filter(|name| !is_registered(name, &sources))
        .collect();
    assert!(unknown.is_empty(), "unknown metrics: {unknown:?}");
}

#[test]
fn every_panel_of_the_dashboard_has_a_query() {
    let text = fs::read_to_string(project().join(DASHBOARD)).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        let asks = |target: &Value| target["expr"].as_str().is_some_and(|text| !text.is_empty());
        assert!(!targets.is_empty() && targets.iter().all(asks), "{panel}");
    }
}

/// Names of our metrics in a text.
fn names(text: &str) -> Vec<String> {
    let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    let words = text.split(is_end);
    let ours = words.filter(|word| word.starts_with("lighthaul_"));
    ours.map(str::to_owned).collect()
}

/// Returns true if a source file has the name in quotes, without its prefix and suffixes.
fn is_registered(name: &str, sources: &str) -> bool {
    let name = name.trim_start_matches("lighthaul_");
    let name = name.trim_start_matches("gateway_");
    let mut name = name.trim_start_matches("scheduler_");
    for end in ENDS {
        name = name.strip_suffix(end).unwrap_or(name);
        if sources.contains(&format!("\"{name}\"")) {
            return true;
        }
    }
    false
}
