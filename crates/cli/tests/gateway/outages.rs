//! Paths between gateways that fail for a while, or no longer carry datagrams.

use std::io::Read;

use crate::pair::Pair;
use crate::programs::{Talk, hear, tell};
use crate::scratch::noise;

#[test]
fn session_resumes_after_a_path_outage() {
    let Some(mut pair) = Pair::start("session_resumes_after_a_path_outage") else {
        return;
    };
    let mut ends = pair.session();
    let talk = Talk::begin(&ends, [20_000_000, 20_000_000]);
    let mut beginning = vec![0; 1_000_000];
    ends.program.read_exact(&mut beginning).unwrap();
    pair.cut();
    pair.ingress.says("the connection of a link ended");
    pair.egress.says("the connection of a link ended");
    pair.ingress.says("cannot reach 10.77.0.2");
    pair.mend();
    talk.finish(&mut ends.program, beginning);
}

#[test]
fn session_continues_when_datagrams_are_blocked() {
    let Some(mut pair) = Pair::start("session_continues_when_datagrams_are_blocked") else {
        return;
    };
    let mut ends = pair.session();
    let said = noise(20_000_000, 5);
    let sayer = tell(&ends.target, said.clone());
    let mut heard = vec![0; 1_000_000];
    ends.program.read_exact(&mut heard).unwrap();
    pair.stage.block("a", "meta l4proto udp");
    pair.egress.says("no datagram reaches the other gateway");
    let (rest, end) = hear(&mut ends.program);
    end.unwrap();
    sayer.join().unwrap().unwrap();
    heard.extend(rest);
    assert!(heard == said, "what came is not what was said");
}
