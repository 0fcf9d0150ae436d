//! Who looks late at what is shown, as somebody does who reads a plan in a pager: the peer knows that this side
//! is there, and nothing of the plan is lost.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

mod ends;
mod offer;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use lighthaul_io::control::{Frame, Stream};
use lighthaul_io::fs::ground::Ground;
use lighthaul_transfer::error::Error;
use lighthaul_transfer::filter::Rules;
use lighthaul_transfer::manifest::{Entry, Kind, Linked, pack};
use lighthaul_transfer::message::{Listing, Message, Target, Verdict, Wanted};
use lighthaul_transfer::options::{Action, Detail, Options, Planned};
use lighthaul_transfer::path::{Door, explore};
use lighthaul_transfer::protocol;
use lighthaul_transfer::receive::landing::Landing;
use lighthaul_transfer::receive::{self, receive};
use lighthaul_transfer::send::walk::Walk;
use lighthaul_transfer::send::{self, Finds, send};
use lighthaul_transfer::session::{LIST, Session};
use lighthaul_transfer::watch::Sight;

use ends::sessions;
use offer::offer;

#[test]
fn a_sender_who_looks_late_is_known_to_be_there_and_sees_all_of_a_plan() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("late-source");
    fs::write(&source, "source").unwrap();
    let [sender, receiver] = sessions();
    let (said, look) = channel();
    let receiver = thread::spawn(move || {
        let list = receiver.control.open(LIST)?;
        let mut path = explore(&receiver, &Door::Caller(false), false, 1)?;
        assert!(matches!(path.listen(&receiver)?, Message::Offer(_)));
        // more than may wait to be shown, and less than may wait to be heard
        for number in 0..PLANNED {
            say(&list, &Listing::Planned(vec![planned(number)]))?;
        }
        let files = Vec::new();
        say(&list, &Listing::Wanted(Wanted { entries: 1, files }))?;
        hear_of_life(&receiver)?;
        receiver.say(&Message::Settled(1, Vec::new()))?;
        receiver.say(&Message::Verdict(Verdict {
            entries: 1,
            bytes: 0,
            unchanged: 0,
        }))?;
        said.send(()).ok();
        while receiver.hear().is_ok() {}
        Ok::<_, Error>(())
    });
    let walk = Walk::new(Arc::new(Ground::anywhere()), &[source], Rules::default()).unwrap();
    let settings = send::Settings {
        plain: true,
        options: rehearsal(),
        theirs: protocol::names(),
        ..send::Settings::default()
    };
    let mut shown = 0;
    let mut watcher = |sight: Sight| {
        if let Sight::Planned(now) = sight {
            if shown == 0 {
                look.recv().unwrap();
            }
            assert_eq!(now, planned(shown));
            shown += 1;
        }
    };
    let door = Door::Caller(false);
    let finds = Finds::walked(walk);
    let summary = send(&sender, &door, finds, settings, &mut watcher).unwrap();
    assert_eq!((summary.entries, shown), (1, PLANNED));
    drop(sender);
    receiver.join().unwrap().unwrap();
}

#[test]
fn a_receiver_who_looks_late_is_known_to_be_there() {
    let target = Target {
        path: b"/no-such-folder/".to_vec(),
        into: true,
    };
    let landing = Landing::find(&target, &Arc::new(Ground::anywhere()), true).unwrap();
    let [receiver, sender] = sessions();
    let (said, look) = channel();
    let sender = thread::spawn(move || {
        let list = sender.control.open(LIST)?;
        say(&list, &Listing::Begin(true))?;
        say(&list, &Listing::Entries(pack(&[entry()])?))?;
        explore(&sender, &Door::Caller(false), true, 1)?;
        sender.say(&Message::Offer(offer()))?;
        hear_of_life(&sender)?;
        said.send(()).ok();
        say(&list, &Listing::End)?;
        while !matches!(sender.hear()?, Message::Verdict(_)) {}
        Ok::<_, Error>(())
    });
    let settings = receive::Settings {
        plain: true,
        options: rehearsal(),
        ..receive::Settings::default()
    };
    let mut shown = 0;
    let mut watcher = |sight: Sight| {
        if let Sight::Planned(now) = sight {
            look.recv().unwrap();
            assert_eq!((now.action, now.path), (Action::Create, entry().path));
            shown += 1;
        }
    };
    let door = Door::Caller(false);
    receive(&receiver, &door, landing, settings, &mut watcher).unwrap();
    assert_eq!(shown, 1);
    sender.join().unwrap().unwrap();
}

/// Waits until the peer has said twice that it is there.
fn hear_of_life(session: &Session) -> Result<(), Error> {
    for _ in 0..2 {
        while session.hear()? != Message::Alive {}
    }
    Ok(())
}

fn rehearsal() -> Options {
    Options {
        dry_run: Some(Detail::All),
        ..Options::default()
    }
}

fn say(list: &Stream, listing: &Listing) -> Result<(), Error> {
    Ok(list.send(&Frame::message(listing.encode()))?)
}

fn planned(number: u64) -> Planned {
    Planned {
        action: Action::Create,
        path: number.to_string().into_bytes(),
        bytes: number,
        why: String::new(),
    }
}

fn entry() -> Entry {
    Entry {
        path: b"a-file".to_vec(),
        kind: Kind::File(1),
        mode: 0o644,
        seconds: 1_000_000_000,
        nanos: 0,
        digest: None,
        extras: None,
        data: None,
        linked: Linked::Alone,
    }
}

const PLANNED: u64 = 20_000;
