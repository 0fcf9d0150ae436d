//! Gateways that are stopped.

use std::io::{Read, Write};
use std::net::Shutdown;

use lighthaul_io::host::interrupt::TOGETHER;
use lighthaul_io::host::wait::pause;

use crate::pair::{Pair, SOCKS, signal};
use crate::programs::{assert_reset, hear, tell};
use crate::running::becomes_true;
use crate::scratch::noise;

#[test]
fn stopped_ingress_drains_its_sessions() {
    let name = "stopped_ingress_drains_its_sessions";
    let Some(mut pair) = Pair::start(name) else {
        return;
    };
    let mut ends = pair.session();
    let said = noise(10_000_000, 5);
    let sayer = tell(&ends.target, said.clone());
    let mut beginning = vec![0; 100_000];
    ends.program.read_exact(&mut beginning).unwrap();
    signal(&pair.ingress, "TERM");
    pair.ingress.says("stopping with 1 running session;");
    becomes_true("no more programs are accepted", || {
        let address = SOCKS.parse().unwrap();
        let call =
            || Ok(std::net::TcpStream::connect(std::net::SocketAddr::clone(&address)).is_err());
        pair.stage.lab.within("a", call).unwrap()
    });
    let (rest, end) = hear(&mut ends.program);
    end.unwrap();
    sayer.join().unwrap().unwrap();
    assert!([beginning, rest].concat() == said);
    ends.program.write_all(b"thanks").unwrap();
    ends.program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear(&mut ends.target).0, b"thanks");
    let outcome = pair.ingress.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.said("no session is left"), "{outcome:?}");
}

#[test]
fn stopped_egress_refuses_sessions_and_ends_after_the_last_session() {
    let name = "stopped_egress_refuses_sessions_and_ends_after_the_last_session";
    let Some(mut pair) = Pair::start(name) else {
        return;
    };
    let mut ends = pair.session();
    signal(&pair.egress, "TERM");
    pair.egress.says("stopping with 1 running session;");
    assert_eq!(pair.reach("10.77.0.2:9").unwrap_err(), 1);
    ends.program.write_all(b"still there").unwrap();
    ends.program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear(&mut ends.target).0, b"still there");
    drop(ends.target);
    hear(&mut ends.program).1.unwrap();
    let outcome = pair.egress.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn second_signal_resets_sessions() {
    let Some(mut pair) = Pair::start("second_signal_resets_sessions") else {
        return;
    };
    let mut ends = pair.session();
    signal(&pair.ingress, "TERM");
    pair.ingress.says("stopping with 1 running session;");
    // signals less than that apart count as one
    pause(2 * TOGETHER);
    signal(&pair.ingress, "TERM");
    assert_reset("the program", &mut ends.program);
    let outcome = pair.ingress.finish();
    assert!(outcome.said("ended 1 session"), "{outcome:?}");
}

#[test]
fn draining_ends_after_the_patience() {
    let patience = ["--patience", "1s"];
    let name = "draining_ends_after_the_patience";
    let Some(mut pair) = Pair::start_with(name, &patience, &patience) else {
        return;
    };
    let mut ends = pair.session();
    signal(&pair.egress, "INT");
    pair.egress.says("ended 1 session");
    assert_reset("the target", &mut ends.target);
    assert_reset("the program", &mut ends.program);
}
