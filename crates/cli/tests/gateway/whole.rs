//! What crosses arrives whole, whichever way, and whatever else does.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;

use crate::pair::Pair;
use crate::programs::{Talk, echo, hear, tell};
use crate::scratch::noise;

#[test]
fn a_transfer_arrives_whole_both_ways_at_once() {
    let Some(pair) = Pair::start("a_transfer_arrives_whole_both_ways_at_once") else {
        return;
    };
    let mut ends = pair.session();
    let talk = Talk::begin(&ends, [20_000_003, 10_000_001]);
    talk.finish(&mut ends.program, Vec::new());
}

#[test]
fn many_connections_at_a_time_keep_apart() {
    let Some(pair) = Pair::start("many_connections_at_a_time_keep_apart") else {
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
fn who_has_said_all_may_still_hear() {
    let Some(pair) = Pair::start("who_has_said_all_may_still_hear") else {
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
