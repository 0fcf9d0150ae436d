//! Peers with valid keys that send wrong messages in a listing or a checkup.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;

use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use lighthaul_files::execute::Scope;
use lighthaul_files::remote;
use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::control::Frame;
use lighthaul_session::checkup::message::{HostFacts, Message};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;
use lighthaul_session::{checkup, message as own};

use ends::sessions;

/// Sends these frames.
fn say(session: &Session, frames: &[Vec<u8>]) {
    for octets in frames {
        let frame = Frame::message(octets.clone());
        session.stream.send(&frame).unwrap();
    }
}

/// Receives the reply `words` to a request about files. Returns the result, and the number of
/// parts.
fn hear(words: &[Vec<u8>]) -> (Result<(), Error>, usize) {
    let [asking, answering] = sessions();
    say(&answering, words);
    drop(answering);
    let mut count = 0;
    let result = remote::receive(&asking, &mut |_| {
        count += 1;
        Ok(())
    });
    (result, count)
}

#[test]
fn reply_ends_with_done_and_contains_no_other_messages() {
    let busy = FileReply::Busy { done: 1 }.encode();
    let done = FileReply::Done { done: 1 }.encode();
    let (result, count) = hear(&[busy.clone(), done.clone(), busy.clone()]);
    assert_eq!((result, count), (Ok(()), 2));
    let (result, count) = hear(&[busy.clone(), own::Message::Guest.encode(), done]);
    assert_eq!(result.unwrap_err().code(), Code::Protocol);
    assert_eq!(count, 1);
    let failed = own::Message::Failed {
        code: 13,
        why: "no".into(),
    };
    let failed = failed.encode();
    let (result, _) = hear(&[busy.clone(), failed]);
    assert_eq!(
        result,
        Err(PeerFault::reported(Code::Permission as u8, "no").into())
    );
    // a lost connection is not the end of a reply
    let (result, _) = hear(&[busy]);
    assert_eq!(result.unwrap_err().code(), Code::Network);
}

#[test]
fn listing_arrives_in_parts_and_stops_when_the_client_disconnects() {
    let folder = std::env::temp_dir().join(format!("lighthaul-listing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for nth in 0..200_u32 {
        std::fs::write(folder.join(nth.to_string()), "").unwrap();
    }
    let [asking, answering] = sessions();
    let (ended, end) = sync_channel(1);
    let paths = vec![b"0".to_vec(); 300_000];
    let access = FileAccess::beneath(&folder).unwrap();
    let answerer = thread::spawn(move || {
        let scope = Scope {
            access: &access,
            writable: false,
            special: false,
            halt: &answering.halt,
        };
        let result = remote::serve(&answering, scope, &FileRequest::Stat { paths });
        ended.send(result).unwrap();
    });
    // the first part has arrived, and the rest waits until it is read
    let FileReply::Listed { items: listed } = asking.hear().unwrap() else {
        panic!("this is not a listing");
    };
    assert!(listed.len() < 10_000, "{}", listed.len());
    assert!(end.try_recv().is_err());
    drop(asking);
    assert_eq!(end.recv().unwrap().unwrap_err().code(), Code::Network);
    answerer.join().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn checkup_rejects_unexpected_messages() {
    let facts = Message::Facts(HostFacts::default());
    for words in [
        vec![Message::Counted { datagrams: 1 }.encode()],
        vec![facts.encode()],
        vec![
            Message::Time { nanos: 0 }.encode(),
            own::Message::Guest.encode(),
        ],
    ] {
        let [asking, answering] = sessions();
        say(&asking, &words);
        let (_probes, arrivals) = sync_channel(1);
        let result = checkup::answer::answer(&answering, &Role::Server(arrivals, channel().1));
        assert_eq!(result.unwrap_err().code(), Code::Protocol, "{words:?}");
    }
    for word in [Message::Explore, facts, Message::End] {
        let [asking, answering] = sessions();
        answering.say(&word).unwrap();
        let result = checkup::ask::ask(&asking, true);
        assert_eq!(result.unwrap_err().code(), Code::Protocol, "{word:?}");
    }
}

#[test]
fn any_clock_of_the_peer_is_tolerated() {
    for time in [0, 1, u64::MAX, u64::MAX / 2] {
        let [asking, answering] = sessions();
        let liar = thread::spawn(move || {
            for _ in 0..5 {
                answering.hear::<Message>().unwrap();
                answering.say(&Message::Time { nanos: time }).unwrap();
            }
            answering.hear::<Message>().unwrap();
            answering.say(&own::Message::Guest).unwrap();
            answering // a session that ends before all was read takes back what it said
        });
        let result = checkup::ask::ask(&asking, true);
        assert_eq!(result.unwrap_err().code(), Code::Protocol, "{time}");
        drop(liar.join().unwrap());
    }
}
