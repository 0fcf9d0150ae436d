//! Streams between programs, through pipes and files of a daemon.

use std::fs::{self, File};
use std::thread;
use std::time::Duration;

use lighthaul::{
    Code, Direction, Fault, Frames, ObjectOptions, Place, Size, StreamEvent, StreamKind,
    StreamRequest,
};
use lighthaul_testkit::allowance;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::ends::block_on;
use crate::host::Host;

/// Returns a request for a stream without datagrams, which a loaded host drops.
fn request(direction: Direction, place: Place) -> StreamRequest {
    let mut request = match direction {
        Direction::To => StreamRequest::to(place),
        Direction::From => StreamRequest::from(place),
    };
    request.udp = false;
    request
}

fn pipe(host: &Host, name: &str) -> Place {
    mkfifoat(CWD, host.folder.join("a").join(name), Mode::RWXU).unwrap();
    host.place(name)
}

/// Returns the framing and the kind of a stream of objects of ten bytes.
fn objects() -> (Frames, StreamKind) {
    let options = ObjectOptions {
        delay: Duration::from_millis(20),
        ..ObjectOptions::new(Size(10), 100.0)
    };
    let frames = Frames::Fixed(10.try_into().unwrap());
    (frames, StreamKind::Objects(options))
}

#[test]
fn messages_cross_a_pipe_between_two_programs() {
    let host = Host::start("stream-pipe", &["a", "b"]);
    let pipe = pipe(&host, "pipe");
    let client = host.client("a");
    let reader = client.stream(request(Direction::From, pipe.clone()));
    let reader = reader.unwrap();
    let writer = client.stream(request(Direction::To, pipe)).unwrap();
    let messages: Vec<Vec<u8>> = (0..300_u32)
        .map(|nth| nth.to_be_bytes().repeat(nth as usize % 100))
        .collect();
    let sent = messages.clone();
    let sending = thread::spawn(move || {
        for message in &sent {
            writer.send(message).unwrap();
        }
        writer.finish().unwrap()
    });
    let mut received = Vec::new();
    while let Some(message) = reader.receive().unwrap() {
        received.push(message);
    }
    assert_eq!(received, messages);
    assert_eq!(sending.join().unwrap().report.delivered, 300);
    let summary = reader.finish().unwrap();
    assert_eq!((summary.report.messages, summary.report.lost), (300, 0));
}

#[test]
fn objects_are_appended_to_a_file_and_read_from_it() {
    let host = Host::start("stream-file", &["a"]);
    let client = host.client("a");
    let with = |direction| {
        let mut request = request(direction, host.place("file"));
        (request.frames, request.kind) = objects();
        request
    };
    let writer = client.stream(with(Direction::To)).unwrap();
    for message in [&b"0123456789"[..], b"abcdefghij", b"short"] {
        writer.send(message).unwrap();
    }
    // an object can follow only complete ones
    let error = writer.send(b"0123456789").unwrap_err();
    let fault = error.fault::<Fault>();
    assert!(matches!(fault, Some(Fault::MessageLen { .. })), "{error}");
    writer.close();
    assert_eq!(block_on(&writer).unwrap().report.delivered, 3);
    let file = host.folder.join("a/file");
    assert_eq!(fs::read(file).unwrap(), b"0123456789abcdefghijshort");

    let here = host.folder.join("here");
    let mut plans = 0;
    let mut observe = |event: StreamEvent| {
        plans += u32::from(matches!(event, StreamEvent::Planned { objects: 2, .. }));
    };
    let target = File::create(&here).unwrap();
    let carried = client.run_stream(&with(Direction::From), target, &mut observe);
    let summary = carried.unwrap();
    assert_eq!((summary.report.delivered, plans), (3, 1));
    assert_eq!(fs::read(here).unwrap(), b"0123456789abcdefghijshort");
}

#[test]
fn cancelled_stream_ends_calls_that_wait() {
    let host = Host::start("stream-cancel", &["a"]);
    let pipe = pipe(&host, "pipe");
    let stream = host.client("a").stream(request(Direction::From, pipe));
    let stream = stream.unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| stream.receive());
        assert!(stream.wait_for(Duration::from_millis(1)).is_none());
        stream.cancel();
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.code(), Code::Interrupted, "{error}");
    });
    let end = stream.wait_for(allowance(30)).unwrap();
    assert_eq!(end.unwrap_err().code(), Code::Interrupted);
    assert!(stream.is_finished());
}

#[test]
fn failures_of_a_stream_name_their_reason() {
    let host = Host::start("stream-faults", &["a"]);
    let client = host.client("a");
    let absent = client.stream(request(Direction::From, host.place("absent")));
    let error = absent.unwrap().receive().unwrap_err();
    assert_eq!(error.code(), Code::Open, "{error}");
    assert!(error.text().contains("absent"), "{error}");

    let mut lines = request(Direction::To, host.place("lines"));
    lines.frames = Frames::Lines;
    let stream = client.stream(lines).unwrap();
    let error = stream.send(b"two\nlines").unwrap_err();
    assert!(matches!(error.fault(), Some(Fault::LineFeed)), "{error}");
    let error = stream.receive().unwrap_err();
    let fault = error.fault::<Fault>();
    assert!(matches!(fault, Some(Fault::OtherDirection)), "{error}");
    stream.send(b"one line").unwrap();
    stream.finish().unwrap();
    let there = fs::read_to_string(host.folder.join("a/lines")).unwrap();
    assert_eq!(there, "one line\n");

    let long = client.stream(request(Direction::To, host.place("long")));
    let long = long.unwrap();
    // the failure is reported by this message or by the end
    long.send(&vec![0; 100_000]).ok();
    let error = long.finish().unwrap_err();
    assert_eq!(error.code(), Code::Usage, "{error}");

    let mut none = request(Direction::To, host.place("x"));
    none.kind = StreamKind::Objects(ObjectOptions::new(Size(10), -1.0));
    let error = client.stream(none).unwrap_err();
    assert!(matches!(error.fault(), Some(Fault::ObjectRate)), "{error}");
    let here = request(Direction::To, Place::Here("x".into()));
    let error = client.stream(here).unwrap().finish().unwrap_err();
    assert_eq!(error.code(), Code::Usage, "{error}");
}
