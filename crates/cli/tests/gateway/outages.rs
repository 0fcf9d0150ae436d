//! Paths between gateways that are gone for a while, or carry no datagrams any more.

use std::io::Read;
use std::thread;
use std::time::Duration;

use lighthaul_io::wait::pause;

use crate::pair::Pair;
use crate::programs::{hear, tell};
use crate::scratch::noise;

#[test]
fn a_session_goes_on_when_the_path_is_back() {
    let Some(mut pair) = Pair::start("a_session_goes_on_when_the_path_is_back") else {
        return;
    };
    let mut ends = pair.session();
    let (there, back) = (noise(20_000_000, 3), noise(20_000_000, 4));
    let sayers = [
        tell(&ends.program, there.clone()),
        tell(&ends.target, back.clone()),
    ];
    let mut beginning = vec![0; 1_000_000];
    ends.program.read_exact(&mut beginning).unwrap();
    pair.cut();
    pair.ingress.says("the connection of a link ended");
    pair.egress.says("the connection of a link ended");
    // longer than it takes to notice, and so that several attempts fail
    pause(Duration::from_secs(30));
    pair.mend();
    let mut target = ends.target.try_clone().unwrap();
    let listener = thread::spawn(move || hear(&mut target));
    let (rest, end) = hear(&mut ends.program);
    end.unwrap();
    beginning.extend(rest);
    assert!(beginning == back, "what came back is not what was said");
    let (heard, end) = listener.join().unwrap();
    end.unwrap();
    assert!(heard == there, "what arrived is not what was said");
    for sayer in sayers {
        sayer.join().unwrap().unwrap();
    }
}

#[test]
fn a_session_goes_on_where_datagrams_pass_no_more() {
    let Some(mut pair) = Pair::start("a_session_goes_on_where_datagrams_pass_no_more") else {
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
