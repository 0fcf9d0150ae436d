//! Data arrives complete in both directions, beside other traffic.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;

use crate::pair::Pair;
use crate::programs::{Talk, echo, hear, tell};
use crate::scratch::noise;

#[test]
fn simultaneous_transfers_arrive_complete() {
    let Some(pair) = Pair::start("simultaneous_transfers_arrive_complete") else {
        return;
    };
    let mut ends = pair.session();
    let talk = Talk::begin(&ends, [20_000_003, 10_000_001]);
    talk.finish(&mut ends.program, Vec::new());
}

#[test]
fn concurrent_connections_are_not_mixed() {
    let Some(pair) = Pair::start("concurrent_connections_are_not_mixed") else {
        return;
    };
    let (listener, address) = pair.target();
    let target = echo(listener, COUNT);
    let programs: Vec<_> = (0..COUNT)
        .map(|nth| {
            let mut stream = pair.reach(&address.to_string()).unwrap();
            thread::spawn(move || {
                let said = noise(300_000 + nth as u64, nth as u64);
                let sayer = tell(&stream, said.clone());
                let (heard, end) = hear(&mut stream);
                end.unwrap();
                sayer.join().unwrap().unwrap();
                assert!(heard == said, "program {nth} heard something else");
            })
        })
        .collect();
    for program in programs {
        program.join().unwrap();
    }
    target.join().unwrap();
}

#[test]
fn half_closed_program_still_receives() {
    let Some(pair) = Pair::start("half_closed_program_still_receives") else {
        return;
    };
    let mut ends = pair.session();
    ends.program.write_all(b"a question").unwrap();
    ends.program.shutdown(Shutdown::Write).unwrap();
    let (question, end) = hear(&mut ends.target);
    end.unwrap();
    assert_eq!(question, b"a question");
    for word in ["an", "answer"] {
        ends.target.write_all(word.as_bytes()).unwrap();
        let mut heard = vec![0; word.len()];
        ends.program.read_exact(&mut heard).unwrap();
        assert_eq!(heard, word.as_bytes());
    }
    drop(ends.target);
    let (rest, end) = hear(&mut ends.program);
    end.unwrap();
    assert!(rest.is_empty());
}

/// Programs at a time.
const COUNT: usize = 60;
