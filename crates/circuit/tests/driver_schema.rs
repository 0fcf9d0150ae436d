//! Lines of the driver protocol, and the published schema: what is sent, and what is accepted.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::exec::config::Config;
use lighthaul_circuit::exec::{Answer, Exec};
use lighthaul_io::host::clock::Clock;
use lighthaul_testkit::schema::check;
use proptest::prelude::*;
use serde_json::{Value, json};

fn schema() -> Value {
    serde_json::from_str(include_str!("../schema/driver.v1.json")).unwrap()
}

fn fits(kind: &str, line: &Value) -> Result<(), String> {
    let schema = schema();
    let rule = schema.pointer(&format!("/$defs/{kind}")).unwrap();
    check(&schema, rule, line)
}

/// Returns the program, and files with the lines in both directions.
fn recorded() -> (Config, [PathBuf; 2]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let driver = root.join("drivers/skeleton-python/driver.py");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = |name: &str| scratch.join(format!("schema-{}-{name}", std::process::id()));
    let files = [file("requests"), file("answers")];
    let line = format!(
        "stdbuf -o0 tee {} | python3 {} | stdbuf -o0 tee {}",
        files[0].display(),
        driver.display(),
        files[1].display()
    );
    let config = Config {
        program: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), line],
        limit: Duration::from_secs(20),
    };
    (config, files)
}

#[test]
fn lines_in_both_directions_match_the_schema() {
    if lighthaul_testkit::lacks_tool("lines_in_both_directions_match_the_schema", "python3") {
        return;
    }
    let (config, files) = recorded();
    let mut exec = Exec::open(Clock::start(), config).unwrap();
    let circuit = Circuit {
        id: CircuitId(u64::MAX),
        interface: "\"1/1/3\"\n".to_owned(),
        flow: "tcp fd00::2 5000".parse().unwrap(),
        trc: "0s-900s 1G".parse().unwrap(),
    };
    let rates = [0, 5_000_000, 5_000_001, 1_000_000_000_000];
    let changes = rates.map(|bps| Change {
        circuit: &circuit,
        rate: Rate::from_bps(bps),
        timer: Rate::from_bps(bps).map(|_| Duration::from_mins(1)),
    });
    let results = exec.apply(&changes);
    let done: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, true, false, false], "{results:?}");
    let installed = exec.inspect().unwrap();
    assert_eq!(installed[0].rate, Some(Rate::from_mbps(5)));
    exec.remove(circuit.id).unwrap();
    assert_eq!(exec.inspect().unwrap(), []);
    drop(exec);
    for (file, kind) in files.iter().zip(["request", "answer"]) {
        let text = fs::read_to_string(file).unwrap();
        fs::remove_file(file).unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        for line in text.lines() {
            let line = serde_json::from_str(line).unwrap();
            assert_eq!(fits(kind, &line), Ok(()), "{line}");
            let other = if kind == "answer" {
                "request"
            } else {
                "answer"
            };
            assert!(fits(other, &line).is_err(), "{line}");
        }
    }
}

#[test]
fn examples_of_the_documentation_match_the_schema() {
    let text = include_str!("../src/exec/mod.rs").replace("\n//!      \"", "\"");
    let lines = text.lines().filter_map(|line| {
        let line = line.strip_prefix("//!")?.trim();
        let json = line.split("     or").next()?;
        json.starts_with("{\"seq\"").then_some(json)
    });
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 8, "{lines:?}");
    for line in lines {
        let line = serde_json::from_str(line).unwrap();
        assert_eq!(check(&schema(), &schema(), &line), Ok(()), "{line}");
    }
}

/// Returns values of one field, some of which are wrong.
fn value() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(70_000),
        json!(u64::MAX),
        json!("all"),
        json!("refused"),
        json!("ip"),
        json!(true),
        json!([]),
        json!([null]),
        json!({}),
    ])
}

/// Returns valid answers of each kind.
fn good() -> Vec<Value> {
    let able = json!({"rate_min_bps": 1, "rate_max_bps": 5, "granularity_bps": 1, "reconfiguration_ns": 0,
        "settling_ns": 0, "circuits_max": 3, "timer_max_ms": 5000,
        "counted": {"layer": "payload", "overhead_bytes": 0}});
    vec![
        json!({"seq": 1, "version": 1, "capabilities": able}),
        json!({"seq": 2, "results": [null, {"fault": "unreachable", "reason": "no"}]}),
        json!({"seq": 3, "circuits": [{"id": 1, "flow": "all", "rate_bps": 7}, {"id": 2, "flow": null, "rate_bps": 0}]}),
        json!({"seq": 4, "error": "no"}),
    ]
}

/// Returns pointers to all parts of a value.
fn parts(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    if let Value::Object(fields) = value {
        for (name, value) in fields {
            parts(value, &format!("{at}/{name}"), all);
        }
    }
    if let Value::Array(items) = value {
        for (nth, value) in items.iter().enumerate() {
            parts(value, &format!("{at}/{nth}"), all);
        }
    }
}

#[test]
fn valid_answers_are_accepted() {
    for answer in good() {
        assert_eq!(fits("answer", &answer), Ok(()));
        Answer::parse(answer.to_string().as_bytes()).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// An answer with one part replaced, removed or added is accepted if the schema accepts it, and only then.
    #[test]
    fn answers_are_accepted_according_to_the_schema(
        kind in 0_usize..4,
        part in any::<prop::sample::Index>(),
        new in value(),
        how in 0..3,
        name in prop::sample::select(vec!["seq", "results", "error", "version", "flow", "more"]),
    ) {
        let mut answer = good().remove(kind);
        let mut all = Vec::new();
        parts(&answer, "", &mut all);
        let at = part.get(&all);
        let place = answer.pointer_mut(at).unwrap();
        match (how, place.as_object_mut()) {
            (0, Some(fields)) => {
                fields.insert(name.to_owned(), new);
            }
            (1, Some(fields)) => {
                let first = fields.keys().next().cloned().unwrap();
                fields.remove(&first);
            }
            _ => *place = new,
        }
        // the schema does not know the grammar of packets
        let knows_flow = ["/circuits/0/flow", "/circuits/1/flow"];
        let flows = knows_flow.iter().filter_map(|at| answer.pointer(at)?.as_str());
        prop_assume!(flows.into_iter().all(|flow| flow == "all"));
        // nor that each circuit is listed once
        let [one, two] = ["/circuits/0/id", "/circuits/1/id"].map(|at| answer.pointer(at));
        prop_assume!(one.is_none() || one != two);
        let is_accepted = Answer::parse(answer.to_string().as_bytes());
        let is_described = fits("answer", &answer);
        prop_assert_eq!(
            is_accepted.is_ok(), is_described.is_ok(),
            "{}: {:?}, {:?}", answer, is_accepted.err().map(|why| why.to_string()), is_described
        );
    }
}
