//! Resets are carried as what they are, from either side.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use lighthaul_io::host::wait::pause;

use crate::pair::{Pair, inner};
use crate::programs::{assert_reset, hear, reset};

#[test]
fn a_program_that_resets_resets_its_target() {
    let Some(pair) = Pair::start("a_program_that_resets_resets_its_target") else {
        return;
    };
    let mut ends = pair.session();
    ends.program.write_all(b"half a wo").unwrap();
    ends.target.read_exact(&mut [0; 9]).unwrap();
    reset(ends.program);
    assert_reset("the target", &mut ends.target);
}

#[test]
fn a_target_that_resets_resets_its_program() {
    let Some(pair) = Pair::start("a_target_that_resets_resets_its_program") else {
        return;
    };
    let mut ends = pair.session();
    ends.target.write_all(b"half a wo").unwrap();
    ends.program.read_exact(&mut [0; 9]).unwrap();
    reset(ends.target);
    assert_reset("the program", &mut ends.program);
}

#[test]
fn a_reset_behind_an_end_is_carried_too() {
    let Some(pair) = Pair::start("a_reset_behind_an_end_is_carried_too") else {
        return;
    };
    let mut ends = pair.session();
    ends.program.write_all(b"all of it").unwrap();
    ends.program.shutdown(Shutdown::Write).unwrap();
    let (_, end) = hear(&mut ends.target);
    end.unwrap();
    reset(ends.program);
    // nothing more is to be heard, so the reset shows where something is said
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
fn a_session_that_is_half_over_and_silent_costs_nothing() {
    let Some(pair) = Pair::start("a_session_that_is_half_over_and_silent_costs_nothing") else {
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
        // a thread that polls without rest would take all of them, or half on a host with much else to do
        assert!(spent <= 20, "{spent} of 200 hundredths of a second");
    }
}

/// Hundredths of a second that a process has had a processor for.
fn ticks(id: u32) -> u64 {
    let line = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, rest) = line.rsplit_once(')').unwrap();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
