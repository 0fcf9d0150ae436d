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
use lighthaul_circuit::driver::{
    Capabilities, Change, CountedBytes, Driver, InstalledCircuit, Layer,
};
use lighthaul_circuit::error::{Cause, Error, ProgramFault};
use lighthaul_circuit::exec::Exec;
use lighthaul_circuit::exec::config::Config;
use lighthaul_circuit::sim_device::{FaultModel, SimDevice};
use lighthaul_io::host::clock::Clock;

const CAPABLE: &str = r#""capabilities":{"rate_min_bps":1000000,"rate_max_bps":10000000000,"granularity_bps":1000000,"reconfiguration_ns":7000000,"settling_ns":3000000,"circuits_max":96,"counted":{"layer":"ip","overhead_bytes":38}}"#;

/// Returns a shell script as a driver: `body` handles each verb, with the request in `$request` and its number in
/// `$seq`.
fn script(body: &str, limit: Duration) -> Config {
    let program = format!(
        "while read -r request; do
           seq=${{request#*:}}; seq=${{seq%%,*}}
           case \"$request\" in
             *'\"verb\":\"hello\"'*) echo '{{\"seq\":1,\"version\":1,{CAPABLE}}}';;
             *) {body};;
           esac
         done"
    );
    shell(program, limit)
}

fn shell(program: String, limit: Duration) -> Config {
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
fn program_reads_lines_and_answers_lines() {
    let requests = scratch("requests");
    let body = format!(
        "echo \"$request\" >> {}
         case \"$request\" in
           *'\"verb\":\"apply\"'*)
             echo \"{{\\\"seq\\\":$seq,\\\"results\\\":[null,{{\\\"fault\\\":\\\"refused\\\",\\\"reason\\\":\\\"port 9 is dark\\\"}}]}}\";;
           *'\"verb\":\"remove\"'*) echo \"{{\\\"seq\\\":$seq,\\\"results\\\":[null]}}\";;
           *) echo '{{\"seq\":4,\"circuits\":[{{\"id\":1,\"flow\":\"udp 10.0.0.2 5000\",\"rate_bps\":5000000}},{{\"id\":2,\"flow\":null,\"rate_bps\":0}}]}}';;
         esac",
        requests.display()
    );
    let mut exec = open(&body);
    let [one, two] = [circuit(1, "1/1/3"), circuit(2, "1/1/9")];
    let changes = [
        Change {
            circuit: &one,
            rate: Some(Rate::from_mbps(5)),
            timer: None,
        },
        Change {
            circuit: &two,
            rate: None,
            timer: None,
        },
    ];
    let answers = exec.apply(&changes);
    assert!(answers[0].is_ok());
    let why = answers[1].as_ref().unwrap_err();
    assert_eq!(why.to_string(), "the device refused: port 9 is dark");
    assert_eq!(why.cause(), Cause::Refused);
    exec.remove(CircuitId(7)).unwrap();
    let installed = |id, flow, rate| InstalledCircuit { id, flow, rate };
    let expected = [
        installed(one.id, Some(one.flow), Some(Rate::from_mbps(5))),
        installed(two.id, None, None),
    ];
    assert_eq!(exec.inspect().unwrap(), expected);
    let text = fs::read_to_string(&requests).unwrap();
    fs::remove_file(&requests).unwrap();
    let flow = r#""flow":"udp 10.0.0.2/32 5000-5000""#;
    let changes = format!(
        r#"[{{"id":1,"interface":"1/1/3",{flow},"rate_bps":5000000}},{{"id":2,"interface":"1/1/9",{flow},"rate_bps":0}}]"#
    );
    let expected = [
        format!(r#"{{"seq":2,"verb":"apply","changes":{changes}}}"#),
        r#"{"seq":3,"verb":"remove","id":7}"#.to_owned(),
        r#"{"seq":4,"verb":"inspect"}"#.to_owned(),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn program_reports_the_capabilities_of_its_device() {
    let expected = Capabilities {
        rate_min: Rate::from_mbps(1),
        rate_max: Rate::from_mbps(10_000),
        granularity: Rate::from_mbps(1),
        reconfiguration: Duration::from_millis(7),
        settling: Duration::from_millis(3),
        entries_max: 96,
        counted: CountedBytes {
            layer: Layer::Ip,
            overhead_bytes: 38,
        },
        timer_max: None,
    };
    assert_eq!(open("").capabilities(), expected);
}

#[test]
fn failures_and_invalid_answers_are_errors_with_the_output() {
    for (body, says) in [
        (
            "echo 'the switch is off' >&2; exit 3",
            "it ended before its answer with exit status: 3; its standard error: the switch is off",
        ),
        (
            "yes 'so many words' | head -c 200000 >&2; echo last >&2; exit 1",
            "last",
        ),
        ("echo nonsense", "it answered \"nonsense\""),
        ("printf '\\377\\001\\n'", "which is not a valid answer"),
        (
            "echo '{\"seq\":2,\"results\":[null,null]}'",
            "no answer for every change",
        ),
        (
            "echo '{\"seq\":2,\"circuits\":[]}'",
            "no answer for every change",
        ),
        ("echo '{\"seq\":2}'", "it must have either version"),
        (
            "echo '{\"seq\":3,\"results\":[null]}'",
            "it is for request 3, and request 2 waits",
        ),
        (
            "while :; do echo '{\"seq\":1,\"results\":[null]}'; done",
            "it is for request 1, and request 2 waits",
        ),
        (
            r#"printf '%s' '{"'; yes '\u001b[2J' | tr -d '\n' | head -c 1048572; echo '":1}'"#,
            "which is not a valid answer: unknown field `\\x1b",
        ),
        ("kill -9 $$", "signal: 9"),
        ("yes | tr -d '\\n'", "a line of its output is too long"),
        (
            "exec <&- >&-; while :; do sleep 0.1; done",
            "it closed its standard output and was killed",
        ),
        (
            "exec <&-; echo '{\"seq\":2,\"results\":[{\"fault\":\"refused\",\"reason\":\"no\"}]}'",
            "the device refused: no",
        ),
        (
            "echo '{\"seq\":2,\"results\":[{\"fault\":\"unreachable\",\"reason\":\"it is off\"}]}'",
            "the device does not answer: it is off",
        ),
        (
            "echo '{\"seq\":2,\"error\":\"what is that?\"}'",
            "it did not execute the request: what is that?",
        ),
    ] {
        let why = open(body).remove(CircuitId(1)).unwrap_err().to_string();
        assert!(why.contains(says), "{body}: {why}");
        assert!(why.len() < 3000, "{body}: {}", why.len());
        assert!(!why.contains(char::is_control), "{body}: {why:?}");
    }
}

#[test]
fn program_that_cannot_be_run_is_refused() {
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
fn version_mismatch_and_refusal_at_the_start_are_reported_in_one_sentence() {
    let greeting = |answer: &str| format!("read -r request; echo '{answer}'; cat > /dev/null");
    for (answer, says) in [
        (
            format!("{{\"seq\":1,\"version\":7,{CAPABLE}}}"),
            "/bin/sh failed: it speaks version 7 of the driver protocol, and only version 1 is known here: \
             use a release of the driver for version 1",
        ),
        (
            r#"{"seq":1,"error":"this driver speaks version 2 only"}"#.to_owned(),
            "/bin/sh failed: it did not execute the request: this driver speaks version 2 only",
        ),
    ] {
        let config = shell(greeting(&answer), Duration::from_secs(20));
        let why = Exec::open(Clock::start(), config).unwrap_err();
        assert_eq!(why.to_string(), says);
    }
}

#[test]
fn answers_to_earlier_requests_are_ignored() {
    let twice = "for nth in 1 2; do echo \"{\\\"seq\\\":$seq,\\\"results\\\":[null]}\"; done";
    let mut exec = open(twice);
    for id in 0..10 {
        exec.remove(CircuitId(id)).unwrap();
    }
}

#[test]
fn sixteen_answers_to_earlier_requests_are_ignored_and_more_are_a_fault() {
    for (count, is_ignored) in [(16, true), (17, false)] {
        let old = "echo '{\"seq\":1,\"results\":[null]}'; ".repeat(count);
        let body = format!("{old} echo \"{{\\\"seq\\\":$seq,\\\"results\\\":[null]}}\"");
        assert_eq!(
            open(&body).remove(CircuitId(1)).is_ok(),
            is_ignored,
            "{count}"
        );
    }
}

#[test]
fn line_that_comes_in_parts_is_one_answer() {
    let program = format!(
        r#"slow() {{ for part; do printf "$part"; sleep 0.1; done; }}
         read -r request; echo '{{"seq":1,"version":1,{CAPABLE}}}'
         read -r request; slow '{{"seq":2,' '"results"' ':[null]' '}}\n'
         read -r request; slow '{{"seq":3,' '"circuits"' ':[]}}\n'
         cat > /dev/null"#
    );
    let mut exec = Exec::open(Clock::start(), shell(program, Duration::from_secs(20))).unwrap();
    exec.remove(CircuitId(1)).unwrap();
    assert_eq!(exec.inspect().unwrap(), []);
}

#[test]
fn program_that_fails_is_started_again_with_a_back_off() {
    let starts = scratch("starts");
    let dies = format!(
        "echo start >> {}; read -r request; echo '{{\"seq\":1,\"version\":1,{CAPABLE}}}'; read -r request; exit 1",
        starts.display()
    );
    let mut exec = Exec::open(Clock::start(), shell(dies, Duration::from_secs(20))).unwrap();
    let count = || fs::read_to_string(&starts).unwrap().lines().count();
    for tries in 1..=2 {
        let why = exec.remove(CircuitId(1)).unwrap_err();
        assert!(why.to_string().contains("exit status: 1"), "{why}");
        assert_eq!((count(), why.cause()), (tries, Cause::NoAnswer));
    }
    // two failures in a row: the third start waits
    for _ in 0..3 {
        let why = exec.remove(CircuitId(1)).unwrap_err().to_string();
        let says = "it is started again in 1 s, because it failed: it ended before its answer with exit status: 1";
        assert!(why.ends_with(says), "{why}");
    }
    assert_eq!(count(), 2);
    let clock = Clock::start();
    while count() == 2 {
        assert!(clock.now().as_secs_f64() < 60.0);
        let _ = exec.remove(CircuitId(1));
        std::thread::yield_now();
    }
    assert!(clock.now().as_secs_f64() > 0.2, "it was started at once");
    fs::remove_file(&starts).unwrap();
}

#[test]
fn program_that_ended_between_requests_is_started_again() {
    let pids = scratch("ended");
    let body = format!(
        "echo $$ > {}; echo \"{{\\\"seq\\\":$seq,\\\"results\\\":[null]}}\"",
        pids.display()
    );
    let mut exec = open(&body);
    for _ in 0..5 {
        exec.remove(CircuitId(1)).unwrap();
        let pid = fs::read_to_string(&pids).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let clock = Clock::start();
        while is_alive(&pid.to_string()) {
            assert!(clock.now().as_secs_f64() < 10.0);
            std::thread::yield_now();
        }
    }
    fs::remove_file(&pids).unwrap();
}

#[test]
fn program_with_other_capabilities_after_a_restart_is_refused() {
    let counter = scratch("capable");
    let other = CAPABLE.replace("\"circuits_max\":96", "\"circuits_max\":95");
    let program = format!(
        "read -r request
         [ -e {path} ] && echo '{{\"seq\":1,\"version\":1,{other}}}' || echo '{{\"seq\":1,\"version\":1,{CAPABLE}}}'
         touch {path}; read -r request",
        path = counter.display()
    );
    let mut exec = Exec::open(Clock::start(), shell(program, Duration::from_secs(20))).unwrap();
    assert!(exec.inspect().is_err());
    let why = exec.inspect().unwrap_err().to_string();
    assert!(
        why.ends_with(
            "its capabilities have changed since the start: start Lighthaul again to use them"
        ),
        "{why}"
    );
    fs::remove_file(&counter).unwrap();
}

#[test]
fn long_requests_and_answers_pass_in_both_directions_at_once() {
    const COUNT: u64 = 3000;
    let results = vec!["null"; COUNT as usize].join(",");
    // it answers before it has read the whole request, which a pipe does not hold
    let program = format!(
        "read -r request; echo '{{\"seq\":1,\"version\":1,{CAPABLE}}}'
         head=$(dd bs=64 count=1 2>/dev/null)
         echo '{{\"seq\":2,\"results\":[{results}]}}'
         read -r rest; read -r request
         echo '{{\"seq\":3,\"circuits\":[]}}'; cat > /dev/null"
    );
    let mut exec = Exec::open(Clock::start(), shell(program, Duration::from_secs(30))).unwrap();
    let circuits: Vec<Circuit> = (0..COUNT).map(|id| circuit(id, "1/1/3")).collect();
    let changes: Vec<Change<'_>> = circuits
        .iter()
        .map(|circuit| Change {
            circuit,
            rate: Some(Rate::from_mbps(5)),
            timer: None,
        })
        .collect();
    let answers = exec.apply(&changes);
    assert!(answers.iter().all(Result::is_ok), "{:?}", answers.first());
    assert_eq!(exec.inspect().unwrap(), []);
}

/// Returns true if a process runs. An orphan is a zombie until init reaps it.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until a process has ended.
fn assert_ends(pid: &str) {
    let clock = Clock::start();
    while is_alive(pid) {
        assert!(clock.now().as_secs_f64() < 10.0, "{pid} lives on");
        std::thread::yield_now();
    }
}

#[test]
fn children_of_a_program_that_ends_by_itself_are_killed() {
    let pids = scratch("orphans");
    let answer = "echo \"{\\\"seq\\\":$seq,\\\"results\\\":[null]}\"";
    for is_asked_again in [false, true] {
        let body = format!(
            "sleep 300 > /dev/null 2>&1 < /dev/null & echo $! $$ > {}; {answer}; exit",
            pids.display()
        );
        let mut exec = open(&body);
        exec.remove(CircuitId(1)).unwrap();
        let text = fs::read_to_string(&pids).unwrap();
        let (orphan, leader) = text.trim().split_once(' ').unwrap();
        assert_ends(leader);
        if is_asked_again {
            exec.remove(CircuitId(1)).unwrap();
        } else {
            drop(exec);
        }
        assert_ends(orphan);
    }
    fs::remove_file(&pids).unwrap();
}

#[test]
fn answer_before_its_request_is_a_fault() {
    let body = "for nth in $seq $((seq + 1)); do
                  echo \"{\\\"seq\\\":$nth,\\\"results\\\":[null]}\"
                done";
    let mut exec = open(body);
    exec.remove(CircuitId(1)).unwrap();
    lighthaul_io::host::wait::pause(Duration::from_millis(200));
    let why = exec.remove(CircuitId(1)).unwrap_err().to_string();
    assert!(why.ends_with("it came before the request"), "{why}");
}

#[test]
fn answer_before_its_request_is_a_fault_behind_a_long_line_too() {
    let written = scratch("written");
    // the line is longer than one read, and shorter than the pipe
    let body = format!(
        "echo \"{{\\\"seq\\\":$seq,\\\"results\\\":[null]}}\"
         printf '{{\"seq\":1,%40000s\"results\":[null]}}\\n' ''
         echo \"{{\\\"seq\\\":$((seq + 1)),\\\"results\\\":[null]}}\"
         : > {}",
        written.display()
    );
    let mut exec = open(&body);
    exec.remove(CircuitId(1)).unwrap();
    let clock = Clock::start();
    while !written.exists() {
        assert!(clock.now().as_secs_f64() < 20.0);
        std::thread::yield_now();
    }
    let why = exec.remove(CircuitId(1)).unwrap_err().to_string();
    assert!(why.ends_with("it came before the request"), "{why}");
    fs::remove_file(&written).unwrap();
}

#[test]
fn line_of_the_maximum_length_is_an_answer() {
    let (begin, end) = ("{\"seq\":2,\"results\":[null]", "}");
    let spaces = (16 << 20) - begin.len() - end.len();
    // all but the line feed can be read before it
    let body = format!(
        "printf '%s' '{begin}'; head -c {spaces} /dev/zero | tr '\\0' ' '; printf '{end}'; sleep 0.3; echo"
    );
    let config = script(&body, Duration::from_mins(2));
    let mut exec = Exec::open(Clock::start(), config).unwrap();
    exec.remove(CircuitId(1)).unwrap();
}

#[test]
fn program_can_finish_its_work_when_its_input_ends() {
    let finished = scratch("finished");
    let mut config = script("", Duration::from_secs(20));
    let last = format!("\n: > {}", finished.display());
    config.arguments[1].push_str(&last);
    // it has a short time, which a loaded machine may exceed sometimes
    let mut tries = 0..100;
    while !finished.exists() {
        assert!(tries.next().is_some(), "it is killed at once");
        drop(Exec::open(Clock::start(), config.clone()).unwrap());
    }
    fs::remove_file(&finished).unwrap();
}

#[test]
fn device_may_have_more_circuits_than_its_maximum() {
    let circuits = (0..200).map(|id| format!("{{\"id\":{id},\"flow\":null,\"rate_bps\":0}}"));
    let circuits: Vec<String> = circuits.collect();
    let body = format!("echo '{{\"seq\":2,\"circuits\":[{}]}}'", circuits.join(","));
    assert_eq!(open(&body).inspect().unwrap().len(), 200);
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
        assert_ends(pid);
    }
}

#[test]
fn hanging_device_fails_its_own_circuit_and_delays_no_other_circuit() {
    let clock = Clock::start();
    let hangs =
        "case \"$request\" in *inspect*) echo '{\"seq\":2,\"circuits\":[]}';; *) sleep 1000;; esac";
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
