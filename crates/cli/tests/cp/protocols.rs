//! Copies by each protocol, and behavior if a peer or a path does not support one.

use std::fs;
use std::net::TcpStream;

use lighthaul_copy::message::{self, Landing, Target, Way};
use lighthaul_daemon::client::call;
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_session::error::Code;
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::protocol;
use lighthaul_session::secrets::Join;
use lighthaul_session::session::Session;

use crate::far::Far;
use crate::running::Running;
use crate::schema::assert_valid;
use crate::scratch::{dress, look, tree};
use crate::stage::Stage;

/// A session at `far` for the client that it allows.
fn meet(far: &Far) -> Session {
    let identity = Identity::load_or_generate(&far.near.key()).unwrap();
    call("127.0.0.1", far.port, &identity).unwrap()
}

#[test]
fn every_protocol_copies_a_tree_in_both_directions() {
    let far = Far::start("protocols", &[]);
    let source = far.near.folder("source");
    for nth in 0..40_u64 {
        let file = far.near.file(&format!("source/{nth}"), nth * nth * 3000);
        dress(&file, 0o640, 1_600_000_000 + nth);
    }
    for name in ["rbudp", "rbudp+", "sabul", "sabul-swift", "tcp", "ptcp"] {
        let options = ["--protocol", name, "--json"];
        let there = far.target.join(name);
        let pushed = far.by_datagrams(|| {
            fs::remove_dir_all(&there).ok();
            far.push(&options, &[&source], name)
        });
        assert_eq!(tree(&there), tree(&source), "{name}");
        let back = far.near.at(&format!("back-{name}"));
        let pulled = far.by_datagrams(|| {
            fs::remove_dir_all(&back).ok();
            far.pull(&options, &[name], back.to_str().unwrap())
        });
        assert_eq!(tree(&back), tree(&source), "{name}");
        for outcome in [pushed, pulled] {
            let start = &assert_valid(&outcome)[0];
            assert_eq!(start["type"], "start");
            assert_eq!(start["protocol"], name);
        }
    }
}

#[test]
fn datagram_protocol_falls_back_to_tcp_where_udp_is_blocked() {
    let far = Far::start("without-datagrams", &[]);
    let file = far.near.file("file", 9_000_000);
    for name in ["rbudp", "rbudp+", "sabul", "sabul-swift"] {
        let options = ["--protocol", name, "--no-udp"];
        let pushed = far.push(&options, &[&file], name).assert_succeeded();
        let brief: Vec<&str> = options
            .iter()
            .copied()
            .filter(|option| *option != "--explain")
            .collect();
        let outcome = far.push(&brief, &[&file], "brief").assert_succeeded();
        assert!(!outcome.said("auto: "), "{outcome:?}");
        assert!(look(&far.target.join(name)) == look(&file), "{name}");
        assert!(pushed.said("TCP carries the data"), "{pushed:?}");
    }
}

#[test]
fn vbtp_follows_the_vector() {
    let far = Far::start("vector", &[]);
    let source = far.near.folder("source");
    for nth in 0..10_u64 {
        far.near.file(&format!("source/{nth}"), nth * 300_000);
    }
    let vector = "0s-200ms 100Mb/s, 200ms-60s 400Mb/s";
    let list = far.near.at("vector");
    fs::write(&list, vector).unwrap();
    for (nth, trc) in [vector, list.to_str().unwrap()].into_iter().enumerate() {
        let (name, options) = (format!("copy{nth}"), ["--trc", trc, "--json"]);
        let pushed = far.push(&options, &[&source], &name).assert_succeeded();
        assert_eq!(tree(&far.target.join(&name)), tree(&source));
        let back = far.near.at(&format!("back{nth}"));
        let pulled = far.pull(&options, &[&name], back.to_str().unwrap());
        assert_eq!(tree(&back), tree(&source));
        for outcome in [pushed, pulled.assert_succeeded()] {
            let events = assert_valid(&outcome);
            assert_eq!(events[0]["protocol"], "vbtp");
            // 13.5 MB: 2.5 MB in the first step, the rest in 0.22 s, without the headers
            let seconds = events.last().unwrap()["moving_s"].as_f64().unwrap();
            assert!(seconds > 0.41, "{seconds} s is faster than the circuit");
        }
    }
    let wrong = |options: &[&str], words: &str| {
        far.push(options, &[&source], "x").assert_failed(1, words);
    };
    wrong(&["--protocol", "vbtp"], "give it with --trc");
    wrong(&["--protocol", "tcp", "--trc", vector], "omit --trc");
    wrong(&["--trc", "0s-2s 4Mb/s, 1s-5s 9Mb/s"], "step 2");
    wrong(&["--trc", "0s-2s 0Mb/s"], "step 1");
}

#[test]
fn unknown_protocol_is_refused() {
    let far = Far::start("no-protocol", &[]);
    let file = far.near.file("x", 10);
    let outcome = far.push(&["--protocol", "udt"], &[&file], "x");
    for name in ["rbudp", "tcp", "ptcp", "auto"] {
        assert!(outcome.said(name), "{outcome:?}");
    }
    outcome.assert_failed_to_parse();
    let outcome = far.push(&["--streams", "33"], &[&file], "x");
    outcome.assert_failed_to_parse();
}

#[test]
fn daemon_without_the_protocol_lists_its_protocols() {
    let far = Far::start("lacks-protocol", &[]);
    let session = meet(&far);
    let target = Target {
        path: far.target.as_os_str().as_encoded_bytes().to_vec(),
        landing: Landing::Inside,
    };
    let request = message::Request {
        way: Way::Receive(target),
        options: Options {
            protocol: "carrier-pigeon".into(),
            ..Options::default()
        },
    };
    let hello = Hello::about::<message::Message>(&request);
    session.say(&Message::Hello(hello)).unwrap();
    let error = session.hear::<Message>().unwrap_err();
    assert_eq!(error.code(), Code::Protocol);
    let all = protocol::names().join(", ");
    let words = format!("protocol \"carrier-pigeon\" is not supported here; choose one of {all}");
    assert_eq!(error.text(), words);
}

#[test]
fn join_without_proof_is_refused() {
    let far = Far::start("wrong-join", &["--plain"]);
    let session = meet(&far);
    let right = session.secrets.join(0);
    let mut wrong = right;
    wrong.secret[31] ^= 1;
    let elsewhere = Join {
        session: right.session ^ 1,
        ..right
    };
    let beyond = Join {
        number: 200,
        ..right
    };
    // that session does not expect any further connection
    for join in [wrong, elsewhere, beyond, right] {
        let joining = meet(&far);
        joining.say(&Message::Join(join)).unwrap();
        let error = joining.hear::<Message>().unwrap_err();
        assert_eq!(error.code(), Code::Permission, "{error}");
        assert_eq!(
            error.text(),
            "the daemon there has no session that this connection may join; start the copy again"
        );
    }
    // connections that never join do not delay those that do
    let _idle: Vec<_> = (0..5)
        .map(|_| TcpStream::connect(("127.0.0.1", far.port)).unwrap())
        .collect();
    let file = far.near.file("x", 5_000_000);
    far.push(&["--protocol", "ptcp", "--streams", "3"], &[&file], "x")
        .assert_succeeded();
    assert!(look(&far.target.join("x")) == look(&file));
}

#[test]
fn ptcp_survives_the_loss_of_a_connection() {
    let name = "ptcp_survives_the_loss_of_a_connection";
    for pull in [false, true] {
        let Some(stage) = Stage::pair(name, "rate = \"80Mb/s\"\nrtt = \"20ms\"") else {
            return;
        };
        let far = Far::start_on("broken-stream", stage);
        let file = far.near.file("x", 40_000_000);
        let there = far.place("x");
        let back = far.near.at("back");
        let mut paths = [file.to_str().unwrap(), &there];
        if pull {
            fs::copy(&file, far.target.join("x")).unwrap();
            paths = [&there, back.to_str().unwrap()];
        }
        let stage = far.near.stage.as_ref().unwrap();
        let run = |script: &str| {
            let status = stage.lab.run("a", &["sh", "-ec", script]).unwrap();
            assert!(status.success());
        };
        // the first connection of a session must stay, the second is lost
        run("nft add table inet test
            nft add set inet test first '{ type inet_service; flags dynamic; size 64; }'
            nft 'add chain inet test out { type filter hook output priority 0; }'
            nft add rule inet test out tcp flags '& (syn | ack) == syn' limit rate 1/day burst 1 packets add @first '{ tcp sport }' accept
            nft add set inet test second '{ type inet_service; flags dynamic; size 64; }'
            nft add rule inet test out tcp flags '& (syn | ack) == syn' limit rate 1/day burst 1 packets add @second '{ tcp sport }'");
        let options = ["--protocol", "ptcp", "--streams", "4", "--json"];
        let mut copy = Running::start(far.copy(&options, &paths));
        copy.prints("\"type\":\"progress\"");
        run("nft add rule inet test out tcp sport @second counter reject with tcp reset");
        copy.finish().assert_succeeded();
        run("nft list chain inet test out | grep -q 'counter packets [1-9]'");
        let copy = if pull { back } else { far.target.join("x") };
        assert!(fs::read(copy).unwrap() == fs::read(&file).unwrap());
    }
}
