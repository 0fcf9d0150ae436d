//! Drivers that run programs: programs that answer, fail or hang.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::agent::Agent;
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::Event;
use lighthaul_circuit::driver::{Capabilities, Change, Driver, InstalledCircuit};
use lighthaul_circuit::error::{Error, ProgramFault};
use lighthaul_circuit::exec::Exec;
use lighthaul_circuit::exec::config::Config;
use lighthaul_circuit::sim_device::{FaultModel, SimDevice};
use lighthaul_io::host::clock::Clock;

const CAPABLE: &str = r#"{"capabilities":{"rate_min_bps":1000000,"rate_max_bps":10000000000,"granularity_bps":1000000,"guard_nanos":10000000,"entries_max":96,"is_hitless":false,"overhead_bytes":38}}"#;

/// Returns a shell script as a driver: `body` handles each verb, with the request in `$request`.
fn script(body: &str, limit: Duration) -> Config {
    let program = format!(
        "request=$(cat); case \"$request\" in *'\"verb\":\"capabilities\"'*) echo '{CAPABLE}'; exit;; esac\n{body}"
    );
    Config {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), program],
        limit,
    }
}

fn open(body: &str) -> Exec {
    Exec::open(Clock::start(), script(body, Duration::from_secs(20))).unwrap()
}

fn circuit(id: u64, interface: &str) -> Circuit {
    Circuit {
        id: CircuitId(id),
        interface: interface.to_owned(),
        flow: "udp 10.0.0.2 5000".parse().unwrap(),
        trc: "0s-900s 1G".parse().unwrap(),
    }
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("exec-{}-{name}", std::process::id()))
}

#[test]
fn program_reads_json_and_answers_json() {
    let requests = scratch("requests");
    let body = format!(
        "echo \"$request\" >> {}
         case \"$request\" in
           *'\"verb\":\"apply\"'*) echo '{{\"answers\":[null,\"port 9 is dark\"]}}';;
           *'\"verb\":\"remove\"'*) echo '{{\"answers\":[null]}}';;
           *) echo '{{\"circuits\":[{{\"id\":1,\"flow\":\"udp 10.0.0.2 5000\",\"rate\":5000000}},{{\"id\":2,\"flow\":null,\"rate\":0}}]}}';;
         esac",
        requests.display()
    );
    let mut exec = open(&body);
    let [one, two] = [circuit(1, "1/1/3"), circuit(2, "1/1/9")];
    let changes = [
        Change {
            circuit: &one,
            rate: Some(Rate::from_mbps(5)),
        },
        Change {
            circuit: &two,
            rate: None,
        },
    ];
    let answers = exec.apply(&changes);
    assert!(answers[0].is_ok());
    let why = answers[1].as_ref().unwrap_err().to_string();
    assert_eq!(why, "the device refused: port 9 is dark");
    exec.remove(CircuitId(7)).unwrap();
    let standing = exec.inspect().unwrap();
    let flow = Some(one.flow);
    let first = InstalledCircuit {
        id: one.id,
        flow,
        rate: Some(Rate::from_mbps(5)),
    };
    assert_eq!(
        standing,
        [
            first,
            InstalledCircuit {
                id: two.id,
                flow: None,
                rate: None
            }
        ]
    );
    let text = fs::read_to_string(&requests).unwrap();
    fs::remove_file(&requests).unwrap();
    let flow = r#""flow":"udp 10.0.0.2/32 5000-5000""#;
    let changes = format!(
        r#"[{{"id":1,"interface":"1/1/3",{flow},"rate_bps":5000000}},{{"id":2,"interface":"1/1/9",{flow},"rate_bps":0}}]"#
    );
    let expected = [
        format!(r#"{{"version":1,"verb":"apply","changes":{changes}}}"#),
        r#"{"version":1,"verb":"remove","id":7}"#.to_owned(),
        r#"{"version":1,"verb":"inspect"}"#.to_owned(),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn program_reports_the_capabilities_of_its_device() {
    let expected = Capabilities {
        rate_min: Rate::from_mbps(1),
        rate_max: Rate::from_mbps(10_000),
        granularity: Rate::from_mbps(1),
        guard: Duration::from_millis(10),
        entries_max: 96,
        is_hitless: false,
        overhead_bytes: 38,
    };
    assert_eq!(open("").capabilities(), expected);
}

#[test]
fn failures_and_invalid_answers_are_errors_with_the_output() {
    for (body, says) in [
        (
            "echo 'the switch is off' >&2; exit 3",
            "exit status: 3; its standard error: the switch is off",
        ),
        (
            "yes 'so many words' | head -c 200000 >&2; echo last >&2; exit 1",
            "last",
        ),
        ("echo nonsense", "it answered \"nonsense\\n\""),
        (
            "echo '{\"answers\":[null,null]}'",
            "no answer for every change",
        ),
        ("echo '{}'", "no answer for every change"),
        ("kill -9 $$", "signal: 9"),
        ("yes", "its output is too long"),
        (
            "exec <&-; echo '{\"answers\":[\"no\"]}'",
            "the device refused: no",
        ),
    ] {
        let why = open(body).remove(CircuitId(1)).unwrap_err().to_string();
        assert!(why.contains(says), "{body}: {why}");
        assert!(why.len() < 1500, "{body}: {}", why.len());
    }
    let nowhere = Config {
        program: "/nowhere/at/all".into(),
        arguments: vec![],
        limit: Duration::from_secs(1),
    };
    for config in [
        nowhere.clone(),
        Config {
            program: "sh".into(),
            ..nowhere.clone()
        },
        Config {
            limit: Duration::ZERO,
            ..nowhere
        },
    ] {
        assert!(Exec::open(Clock::start(), config).is_err());
    }
}

#[test]
fn program_may_close_its_outputs_before_it_has_read_its_input() {
    const COUNT: u64 = 3000;
    let rest = scratch("rest");
    let answers = vec!["null"; COUNT as usize].join(",");
    let program = format!(
        "head=$(dd bs=64 count=1 2>/dev/null)
         case \"$head\" in *'\"verb\":\"capabilities\"'*) echo '{CAPABLE}'; exit;; esac
         echo '{{\"answers\":[{answers}]}}'
         exec >&- 2>&-
         cat > {}",
        rest.display()
    );
    let config = Config {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), program],
        limit: Duration::from_mins(5),
    };
    let mut exec = Exec::open(Clock::start(), config).unwrap();
    let circuits: Vec<Circuit> = (0..COUNT).map(|id| circuit(id, "1/1/3")).collect();
    let changes: Vec<Change<'_>> = circuits
        .iter()
        .map(|circuit| Change {
            circuit,
            rate: Some(Rate::from_mbps(5)),
        })
        .collect();
    let answers = exec.apply(&changes);
    assert!(answers.iter().all(Result::is_ok), "{:?}", answers.first());
    // a pipe holds 64 KiB
    let read = fs::read_to_string(&rest).unwrap();
    assert!(read.len() > 1 << 17, "{}", read.len());
    assert!(read.trim_end().ends_with('}'));
    fs::remove_file(rest).unwrap();
}

/// Returns true if a process runs. An orphan is a zombie until init reaps it.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn hanging_program_is_killed_with_its_children() {
    let pids = scratch("pids");
    let body = format!(
        "echo here I stay >&2; sleep 1000 & echo $! $$ > {}; wait",
        pids.display()
    );
    let clock = Clock::start();
    let mut exec = Exec::open(clock, script(&body, Duration::from_millis(500))).unwrap();
    let answer = exec.remove(CircuitId(1));
    let Err(
        why @ Error::Program {
            fault: ProgramFault::TimedOut { .. },
            ..
        },
    ) = answer
    else {
        panic!("{answer:?}")
    };
    assert!(
        why.to_string()
            .contains("within 0.5 s and was killed; its standard error: here I stay"),
        "{why}"
    );
    let text = fs::read_to_string(&pids).unwrap();
    fs::remove_file(&pids).unwrap();
    let started: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(started.len(), 2);
    for pid in started {
        let clock = Clock::start();
        while is_alive(pid) {
            assert!(clock.now().as_secs_f64() < 10.0, "{pid} lives on");
            std::thread::yield_now();
        }
    }
}

#[test]
fn hanging_device_fails_its_own_circuit_and_delays_no_other() {
    let clock = Clock::start();
    let hangs = "case \"$request\" in *inspect*) echo '{\"circuits\":[]}';; *) sleep 1000;; esac";
    let exec = Exec::open(clock, script(hangs, Duration::from_secs(3))).unwrap();
    let fault_model = FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 0,
    };
    let sim = SimDevice::new(exec.capabilities(), fault_model, 1);
    let drivers: BTreeMap<String, Box<dyn Driver>> = BTreeMap::from([
        ("bad".to_owned(), Box::new(exec) as _),
        ("good".to_owned(), Box::new(sim.clone()) as _),
    ]);
    let (agent, refused) = Agent::start(clock, drivers, Vec::new()).unwrap();
    assert!(refused.is_empty());
    for (id, interface) in [(1, "bad"), (2, "good")] {
        let circuit = circuit(id, interface);
        let till = circuit.trc.end();
        agent.put(circuit, till).unwrap();
    }
    let till = clock.now() + Duration::from_mins(1);
    let mut seen = Vec::new();
    loop {
        let (interface, event) = agent.wait_event(till).unwrap().unwrap();
        let is_over = matches!(event, Event::Failed(..));
        seen.push((interface.to_owned(), event));
        if is_over {
            break;
        }
    }
    let (interface, Event::Failed(id, why)) = seen.pop().unwrap() else {
        unreachable!()
    };
    assert_eq!((interface.as_str(), id), ("bad", CircuitId(1)));
    assert!(why.contains("did not answer within 3 s"), "{why}");
    let good: Vec<&Event> = seen.iter().map(|(_, event)| event).collect();
    assert!(
        matches!(
            good[..],
            [
                Event::Created(CircuitId(2)),
                Event::Changed {
                    id: CircuitId(2),
                    ..
                }
            ]
        ),
        "{good:?}"
    );
    assert_eq!(sim.circuits().len(), 1);
    drop(agent);
    assert_eq!(
        sim.circuits().len(),
        0,
        "circuits are removed when the agent is dropped"
    );
}
