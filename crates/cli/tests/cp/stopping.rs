//! Copies whose daemon is stopped in good order: it says so, and they try again.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;
use lighthaul_session::error::Code;
use lighthaul_session::fault::PeerFault;
use lighthaul_session::message::Message;
use lighthaul_session::session::Session;

use crate::far::{Far, Near};
use crate::running::Running;
use crate::scratch::look;
use crate::third::Pair;

const SLOWLY: [&str; 3] = ["--json", "--rate", "16Mb/s"];
const BYTES: u64 = 6_000_000;

/// Stops and restarts the daemon while the copy moves data. Returns once the copy has succeeded.
fn interrupt(mut copy: Running, far: &mut Far) {
    copy.prints("\"type\":\"progress\"");
    far.daemon.signal("TERM");
    far.daemon.says("stopping");
    copy.says("is being stopped");
    far.restart();
    copy.finish().assert_succeeded();
}

#[test]
fn stopped_daemon_asks_clients_to_retry() {
    for pull in [false, true] {
        let mut far = Far::start(&format!("restarted-{pull}"), &[]);
        let file = far.near.file("x", BYTES);
        let (near, there) = (far.near.at("y"), far.target.join("x"));
        let mut copy: Command = far.near.cp(&SLOWLY);
        copy.args(["--pin", &far.pin, "--key"]).arg(far.near.key());
        if pull {
            fs::copy(&file, &there).unwrap();
            copy.arg("-T").arg(far.place("x")).arg(&near);
        } else {
            copy.arg(&file).arg(far.place("x"));
        }
        interrupt(Running::start(copy), &mut far);
        let made = if pull { near } else { there };
        assert!(
            fs::read(made).unwrap() == fs::read(&file).unwrap(),
            "{pull}"
        );
    }
}

#[test]
fn third_party_copy_tries_again_after_either_daemon_was_stopped() {
    for stops_source in [true, false] {
        let mut pair = Pair::start(&format!("third-stopped-{stops_source}"), &[], &[]);
        let file = pair.a.near.file("x", BYTES);
        fs::rename(file, pair.a.target.join("x")).unwrap();
        let options = [&SLOWLY[..], &["--retries", "5"]].concat();
        let copy = Running::start(pair.copy(&options, "x", "x"));
        let far = if stops_source {
            &mut pair.a
        } else {
            &mut pair.b
        };
        interrupt(copy, far);
        assert!(look(&pair.a.target.join("x")) == look(&pair.b.target.join("x")));
    }
}

/// Before data move, a daemon that cannot be reached ends a copy at once, since its name may be wrong. One that was
/// stopped exists, and comes back.
#[test]
fn copy_tries_again_if_its_daemon_was_stopped_before_the_data_moved() {
    let near = Near::new("stopped-early", None);
    let file = near.file("x", 10);
    let identity = Identity::generate();
    let pin = tls::fingerprint(&identity).unwrap().to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("lh://{}/x", listener.local_addr().unwrap());
    let daemon = thread::spawn(move || {
        let stop = || {
            let session = Session::meet(listener.accept().unwrap().0, &identity).unwrap();
            session.control.authorize();
            assert!(matches!(session.hear(), Ok(Message::Hello(_))));
            let text = "the daemon there is being stopped; try again in a moment";
            session.give_up(&PeerFault::reported(Code::Stopping as u8, text).into());
        };
        stop();
        // it does not serve yet
        drop(listener.accept().unwrap());
        stop();
    });
    let mut copy = near.cp(&["--retries", "2", "--pin", &pin]);
    copy.arg(&file).arg(&place);
    let outcome = near.run(copy);
    assert_eq!(outcome.code, Some(75), "{outcome:?}");
    daemon.join().unwrap();
    for words in [
        "is being stopped; try again in a moment; retrying in 1 s (1 retry left)",
        "; retrying in 2 s (0 retries left)",
    ] {
        assert!(outcome.said(words), "{outcome:?}");
    }
}
