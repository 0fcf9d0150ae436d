//! Resets of connections are carried as resets, in both directions.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use lighthaul_io::host::wait::pause;

use crate::pair::{Pair, inner};
use crate::programs::{assert_reset, hear, reset};

#[test]
fn program_reset_reaches_the_target() {
    let Some(pair) = Pair::start("program_reset_reaches_the_target") else {
        return;
    };
    let mut ends = pair.session();
    ends.program.write_all(b"half a wo").unwrap();
    ends.target.read_exact(&mut [0; 9]).unwrap();
    reset(ends.program);
    assert_reset("the target", &mut ends.target);
}

#[test]
fn target_reset_reaches_the_program() {
    let Some(pair) = Pair::start("target_reset_reaches_the_program") else {
        return;
    };
    let mut ends = pair.session();
    ends.target.write_all(b"half a wo").unwrap();
    ends.program.read_exact(&mut [0; 9]).unwrap();
    reset(ends.target);
    assert_reset("the program", &mut ends.program);
}

#[test]
fn reset_after_end_of_stream_is_carried() {
    let Some(pair) = Pair::start("reset_after_end_of_stream_is_carried") else {
        return;
    };
    let mut ends = pair.session();
    ends.program.write_all(b"all of it").unwrap();
    ends.program.shutdown(Shutdown::Write).unwrap();
    let (_, end) = hear(&mut ends.target);
    end.unwrap();
    reset(ends.program);
    // no more data arrives, so the reset appears at the next write
    let mut writes = (0..600).map(|_| {
        pause(Duration::from_millis(50));
        ends.target.write_all(&[0; 100])
    });
    assert!(
        writes.any(|write| write.is_err()),
        "the target was never told"
    );
}

#[test]
fn silent_half_closed_session_uses_no_cpu() {
    let Some(pair) = Pair::start("silent_half_closed_session_uses_no_cpu") else {
        return;
    };
    let mut ends = pair.session();
    ends.program.shutdown(Shutdown::Write).unwrap();
    hear(&mut ends.target).1.unwrap();
    let ids = [inner(&pair.ingress), inner(&pair.egress)];
    let before = ids.map(ticks);
    pause(Duration::from_secs(2));
    for (id, before) in ids.into_iter().zip(before) {
        let spent = ticks(id) - before;
        // a thread that polls in a busy loop would take all of them, or half on a busy host
        assert!(spent <= 20, "{spent} of 200 hundredths of a second");
    }
}

/// Returns the processor time of a process in hundredths of a second.
fn ticks(id: u32) -> u64 {
    let line = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, rest) = line.rsplit_once(')').unwrap();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
