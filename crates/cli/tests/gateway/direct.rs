//! Targets near the programs, which the gateway there connects to without the link.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use crate::pair::Pair;
use crate::programs::{Ends, Talk, assert_reset, hear, reset};
use crate::running::becomes_true;
use crate::status::links;

/// A pair whose ingress connects directly to targets on its own host, and a listener there.
fn start(name: &str) -> Option<(Pair, TcpListener)> {
    let pair = Pair::start_with(name, &["--direct", "10.77.0.1/32:*"], &[])?;
    let listen = || TcpListener::bind("10.77.0.1:0");
    let listener = pair.stage.lab.within("a", listen).unwrap();
    Some((pair, listener))
}

#[test]
fn direct_target_is_reached_without_the_peer() {
    let name = "direct_target_is_reached_without_the_peer";
    let Some((mut pair, listener)) = start(name) else {
        return;
    };
    pair.kill_egress();
    let mut ends = pair.session_with(&listener);
    let talk = Talk::begin(&ends, [30_000_003, 20_000_001]);
    talk.finish(&mut ends.program, Vec::new());
    becomes_true("the session is shown as one that crossed no link", || {
        let [link, direct] = &links(&pair.scratch, "a")[..] else {
            return false;
        };
        let is_over = direct["sessions"] == 0 && direct["sessions_ended"] == 1;
        let bytes = [
            &direct["bytes_out"],
            &direct["bytes_in"],
            &link["bytes_out"],
        ];
        is_over && direct["peer"] == "direct" && bytes == [30_000_003, 20_000_001, 0]
    });
}

#[test]
fn direct_sessions_keep_half_close_and_resets() {
    let name = "direct_sessions_keep_half_close_and_resets";
    let Some((pair, listener)) = start(name) else {
        return;
    };
    let Ends {
        mut program,
        mut target,
    } = pair.session_with(&listener);
    program.write_all(b"a question").unwrap();
    program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear(&mut target).0, b"a question");
    target.write_all(b"half an").unwrap();
    program.read_exact(&mut [0; 7]).unwrap();
    reset(target);
    assert_reset("the program", &mut program);

    let Ends {
        mut program,
        mut target,
    } = pair.session_with(&listener);
    program.write_all(b"half a wo").unwrap();
    target.read_exact(&mut [0; 9]).unwrap();
    reset(program);
    assert_reset("the target", &mut target);
}

#[test]
fn unreachable_direct_target_is_reported() {
    let name = "unreachable_direct_target_is_reported";
    let Some((pair, listener)) = start(name) else {
        return;
    };
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    assert_eq!(pair.reach(&address).unwrap_err(), 5);
    // a target that is not near crosses the link, and is refused there
    assert_eq!(pair.reach("10.77.0.3:9").unwrap_err(), 2);
}
