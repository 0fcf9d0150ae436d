//! Streams of messages and objects, in both directions, over paths with and without loss.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lighthaul_io::host::wait::pause;
use lighthaul_testkit::{lacks, lacks_root};
use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mkfifoat, mknodat, open};
use rustix::io::ioctl_fionread;
use serde_json::Value;

use crate::endless::session_threads;
use crate::far::Far;
use crate::permits::allow;
use crate::running::{Outcome, Running, becomes_true};
use crate::schema::{check, schema};
use crate::scratch::noise;
use crate::stage::Stage;

/// Carries a stream between `source` and `target`.
fn stream(far: &Far, options: &[&str], source: &str, target: &str) -> Outcome {
    let mut command = far.near.lighthaul(&["stream"]);
    command
        .args(["--pin", &far.pin, "--key"])
        .arg(far.near.key())
        .args(options)
        .args([source, target]);
    far.near.run(command)
}

/// Numbered lines, all different.
fn lines(count: u32) -> String {
    let lines: Vec<_> = (0..count).map(|nth| format!("message {nth}\n")).collect();
    lines.concat()
}

/// Returns the output of a push with `--json`.
fn report(outcome: &Outcome) -> Value {
    let events = outcome.events();
    let [event] = &events[..] else {
        panic!("{outcome:?}")
    };
    check(&schema(), &schema(), event).unwrap();
    event.clone()
}

fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap()
}

/// Options for objects of this size, `per_second` of them in a second.
const fn objects<'a>(size: &'a str, per_second: &'a str) -> [&'a str; 6] {
    [
        "--protocol",
        "rbudp",
        "--object-size",
        size,
        "--objects-per-second",
        per_second,
    ]
}

/// Asserts that the far side has a copy of `source` under this name.
fn assert_arrived(far: &Far, source: &Path, name: &str) {
    let copy = fs::read(far.target.join(name)).unwrap();
    assert_eq!(copy, fs::read(source).unwrap());
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn objects_are_sent_in_payloads() {
    let far = Far::start("stream-objects", &[]);
    let source = far.near.file("objects", 1_000_003);
    let options = [
        &objects("10kB", "1000")[..],
        &["--delay", "20ms", "--rate", "1Gb/s"],
    ]
    .concat();
    let pushed = stream(&far, &options, text(&source), &far.place("objects")).assert_succeeded();
    assert!(pushed.said("20 objects a payload"), "{pushed:?}");
    // the last one is short
    assert!(pushed.said("101 of 101 delivered"), "{pushed:?}");
    assert_arrived(&far, &source, "objects");
}

#[test]
fn prefixed_frames_keep_their_boundaries() {
    let far = Far::start("stream-frames", &[]);
    let mut octets = Vec::new();
    for (nth, len) in [0_u32, 1, 1000, 17].into_iter().enumerate() {
        octets.extend(len.to_be_bytes());
        octets.extend(noise(len.into(), nth as u64));
    }
    let source = far.near.at("frames");
    fs::write(&source, &octets).unwrap();
    let objects = objects("1kB", "100");
    for (name, options) in [("messages", &[][..]), ("objects", &objects)] {
        let options = [options, &["--frames", "prefixed", "--rate", "50Mb/s"]].concat();
        stream(&far, &options, text(&source), &far.place(name)).assert_succeeded();
        assert_eq!(fs::read(far.target.join(name)).unwrap(), octets, "{name}");
    }
}

/// Bytes that a process has read so far, or zero once it has ended.
fn bytes_read(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    count.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn key_without_the_right_streams_to_and_from_pipes_but_not_devices() {
    let test = "key_without_the_right_streams_to_and_from_pipes_but_not_devices";
    if lacks_root(test) {
        return;
    }
    let far = Far::start("stream-device", &["--root", "ROOT"]);
    let device = far.target.join("null");
    // the numbers of /dev/null
    let mode = Mode::from_bits_retain(0o666);
    let made = mknodat(CWD, &device, FileType::CharacterDevice, mode, makedev(1, 3));
    if lacks(test, made) {
        return;
    }
    let there = |name: &str| format!("lh://127.0.0.1:{}/{name}", far.port);
    let source = far.near.at("lines");
    fs::write(&source, lines(20)).unwrap();
    let options = ["--no-udp"];
    allow(&far, &[]);
    let why = "null is a device, which your key may not use there";
    stream(&far, &options, text(&source), &there("null")).assert_failed(13, why);
    stream(&far, &options, &there("null"), "-").assert_failed(13, why);
    let pipe = far.target.join("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let reader = thread::spawn(|| fs::read_to_string(pipe).unwrap());
    stream(&far, &options, text(&source), &there("pipe")).assert_succeeded();
    assert_eq!(reader.join().unwrap(), lines(20));
    // a pipe and a process of their own: processes that other tests start meanwhile could inherit the first pipe
    let more = far.near.at("more");
    fs::write(&more, lines(30)).unwrap();
    let other = far.target.join("other");
    mkfifoat(CWD, &other, Mode::RUSR | Mode::WUSR).unwrap();
    let mut writer = Command::new("cp").args([more, other]).spawn().unwrap();
    let pulled = stream(&far, &options, &there("other"), "-").assert_succeeded();
    assert!(writer.wait().unwrap().success());
    assert_eq!(pulled.out.join("\n") + "\n", lines(30));
    allow(&far, &["--special"]);
    let pushed = stream(&far, &options, text(&source), &there("null")).assert_succeeded();
    assert!(pushed.said("20 of 20 delivered"), "{pushed:?}");
    let pulled = stream(&far, &options, &there("null"), "-").assert_succeeded();
    assert!(pulled.said("0 of 0 delivered"), "{pulled:?}");
    let kind = fs::metadata(&device).unwrap().file_type();
    assert!(kind.is_char_device(), "{kind:?}");
}

/// The daemon waits for the reader of a pipe, and a device takes the name of the pipe meanwhile.
#[test]
fn device_that_replaces_a_pipe_without_a_reader_is_refused() {
    let test = "device_that_replaces_a_pipe_without_a_reader_is_refused";
    if lacks_root(test) {
        return;
    }
    let far = Far::start("stream-replaced", &["--root", "ROOT"]);
    let [pipe, device] = ["end", "null"].map(|name| far.target.join(name));
    let mode = Mode::from_bits_retain(0o666);
    let made = mknodat(CWD, &device, FileType::CharacterDevice, mode, makedev(1, 3));
    if lacks(test, made) {
        return;
    }
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let source = far.near.at("lines");
    fs::write(&source, lines(20)).unwrap();
    allow(&far, &[]);
    let mut command = far.near.lighthaul(&["stream", "--no-udp"]);
    command
        .args(["--pin", &far.pin, "--key"])
        .arg(far.near.key())
        .arg(&source)
        .arg(format!("lh://127.0.0.1:{}/end", far.port));
    let stream = Running::start(command);
    becomes_true("the daemon serves the stream", || {
        session_threads(far.daemon.id()) > 2
    });
    fs::rename(&device, &pipe).unwrap();
    let why = "end is a device, which your key may not use there";
    stream.finish().assert_failed(13, why);
}

#[test]
fn denied_key_ends_a_stream_with_a_stalled_reader() {
    let objects = objects("1MB", "50");
    for (name, options) in [("messages", &[][..]), ("objects", &objects)] {
        let far = Far::start(&format!("stream-denied-{name}"), &[]);
        let source = far.near.at("lines");
        fs::write(&source, format!("{:>1000}\n", "message").repeat(60_000)).unwrap();
        let pipe = far.target.join("pipe");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let reader = open(&pipe, flags, Mode::empty()).unwrap();
        let mut command = far.near.lighthaul(&["stream", "--no-udp"]);
        command
            .args(["--pin", &far.pin, "--key"])
            .arg(far.near.key());
        command
            .args(options)
            .args([text(&source), &far.place("pipe")]);
        let stream = Running::start(command);
        let mut before = 0;
        becomes_true("the stream stalls", || {
            pause(Duration::from_millis(500));
            let now = bytes_read(stream.id());
            // both sides still send keepalive messages
            let is_still = now < std::mem::replace(&mut before, now) + (64 << 10);
            ioctl_fionread(&reader).unwrap() > 0 && is_still
        });
        let key = far.near.lighthaul(&["key", "--key", text(&far.near.key())]);
        let key = far.near.run(key).assert_succeeded().out.concat();
        let mut deny = far.near.lighthaul(&["deny", &key, "--allowed"]);
        deny.arg(far.near.allowed());
        far.near.run(deny).assert_succeeded();
        // the connection may be full of messages, and end before the reason arrives
        let outcome = stream.finish();
        assert!(matches!(outcome.code, Some(10 | 13)), "{outcome:?}");
    }
}

#[test]
fn lossy_path_loses_few_messages_and_no_object() {
    let link = "rate = \"100Mb/s\"\nrtt = \"20ms\"\nloss = \"2%\"\nspare_tcp = true";
    let Some(stage) = Stage::pair("lossy_path_loses_few_messages_and_no_object", link) else {
        return;
    };
    let far = Far::start_on("stream-lossy", stage);
    let source = far.near.at("lines");
    let sent = lines(30_000);
    fs::write(&source, &sent).unwrap();
    let push = |name: String| {
        let options = ["--json", "--rate", "20Mb/s"];
        let pushed = stream(&far, &options, text(&source), &far.place(&name));
        (report(&pushed.assert_succeeded()), name)
    };
    // of 600 datagrams that the link took
    let is_repaired =
        |report: &Value| count(report, "repaired") > 300 && count(report, "lost") < 150;
    // a busy host also drops some
    let mut pushed = (0..5).map(|nth| push(format!("lines{nth}")));
    let (report, name) = pushed.find(|(report, _)| is_repaired(report)).unwrap();
    let [delivered, lost] = ["delivered", "lost"].map(|what| count(&report, what));
    assert_eq!(delivered + lost, 30_000, "{report}");
    let came = fs::read_to_string(far.target.join(name)).unwrap();
    let came: Vec<&str> = came.lines().collect();
    let known: BTreeSet<&str> = sent.lines().collect();
    let distinct: BTreeSet<&str> = came.iter().copied().collect();
    assert_eq!((came.len() as u64, distinct.len()), (delivered, came.len()));
    assert!(distinct.is_subset(&known));

    let source = far.near.file("objects", 2_000_000);
    let options = [
        &objects("20kB", "100")[..],
        &["--delay", "1s", "--blasts", "4", "--rate", "50Mb/s"],
    ]
    .concat();
    stream(&far, &options, text(&source), &far.place("objects")).assert_succeeded();
    assert_arrived(&far, &source, "objects");
}

#[test]
fn invalid_streams_are_refused_with_a_sentence() {
    let far = Far::start("stream-refused", &[]);
    let source = far.near.at("long");
    fs::write(&source, noise(100_000, 1)).unwrap();
    let (source, place) = (text(&source), far.place("x"));
    stream(&far, &[], source, source).assert_failed(1, "neither side is remote");
    stream(&far, &[], &place, &place).assert_failed(1, "one side of a stream must be local");
    stream(&far, &["--code", "xor:0"], source, &place).assert_failed(1, "xor:0: expected none");
    stream(&far, &["--linger", "60s"], source, &place)
        .assert_failed(1, "the linger time must be at most one second");
    let long = stream(
        &far,
        &["--frames", "fixed", "--object-size", "100kB"],
        source,
        &place,
    );
    long.assert_failed(1, "100000 bytes or more exceeds the limit of");
    let with = |per_second, more: &[&str]| {
        let options = [&objects("1MB", per_second), more].concat();
        stream(&far, &options, source, &place)
    };
    with("100", &["--delay", "1ms"]).assert_failed(1, "allow more delay");
    with("100", &["--rate", "10Mb/s"]).assert_failed(40, "the objects need");
    with("0", &[]).assert_failed(1, "above zero");
    stream(&far, &["--protocol", "rbudp"], source, &place).assert_failed_to_parse();
    stream(&far, &[], &far.place("missing"), "-").assert_failed(3, "cannot open the stream");
}

mod alone {
    use lighthaul_testkit::Turn;

    use super::*;

    #[test]
    fn messages_are_streamed_in_both_directions() {
        // a loaded host drops datagrams, and these are not sent again
        let _turn = Turn::alone();
        let far = Far::start("stream-messages", &[]);
        let source = far.near.at("lines");
        fs::write(&source, lines(2_000)).unwrap();
        for (name, options) in [
            ("xor", &["--code", "xor:2", "--rate", "20Mb/s"][..]),
            ("rs", &["--code", "rs:10+3", "--rate", "20Mb/s"]),
            ("none", &["--code", "none", "--rate", "20Mb/s"]),
            ("tcp", &["--no-udp"]),
            ("plain", &["--linger", "0"]),
        ] {
            let pushed = stream(
                &far,
                &[options, &["--json"]].concat(),
                text(&source),
                &far.place(name),
            )
            .assert_succeeded();
            let report = report(&pushed);
            let counts = ["messages", "delivered", "lost"].map(|what| count(&report, what));
            assert_eq!(counts, [2_000, 2_000, 0], "{name}: {report}");
            assert_eq!(
                fs::read_to_string(far.target.join(name)).unwrap(),
                lines(2_000)
            );
        }
        let pulled = stream(&far, &["--rate", "20Mb/s"], &far.place("xor"), "-").assert_succeeded();
        assert_eq!(pulled.out.join("\n") + "\n", lines(2_000));
        assert!(pulled.said("2000 of 2000 delivered"), "{pulled:?}");
    }
}
