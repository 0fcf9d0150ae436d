//! Observers that are slow to take events, like a user who reads a plan in a pager. The peer
//! receives keepalives meanwhile, and no event is lost.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;
mod plain;
mod talk;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{fs, thread};

use lighthaul_copy::message::{CopyResult, LIST, Landing, Listing, Message, Target, WantedFiles};
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::manifest::{Entry, EntryKind, pack};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::{Action, Detail, Options, Planned};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::control::{Frame, Stream};
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_receive::{self as receive, receive};
use lighthaul_session::error::Error;
use lighthaul_session::message as own;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

use ends::sessions;
use plain::send_plain;
use talk::stay;

#[test]
fn slow_sender_sends_keepalives_and_loses_no_event() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("late-source");
    fs::write(&source, "source").unwrap();
    let [sender, receiver] = sessions();
    let (said, look) = channel();
    let receiver = thread::spawn(move || {
        let list = receiver.control.open(LIST)?;
        // more than the queue of events holds, and less than TCP buffers
        for number in 0..PLANNED {
            say(&list, &Listing::Planned(vec![planned(number)]))?;
        }
        let files = Vec::new();
        say(
            &list,
            &Listing::Wanted(WantedFiles {
                entries: 1,
                taken: 0,
                files,
            }),
        )?;
        hear_of_life(&receiver)?;
        receiver.say(&Message::Settled {
            entries: 1,
            failures: Vec::new(),
        })?;
        receiver.say(&Message::Result(CopyResult {
            entries: 1,
            bytes: 0,
            unchanged: 0,
        }))?;
        said.send(()).ok();
        stay(&receiver);
        Ok::<_, Error>(())
    });
    let mut shown = 0;
    let watch = |event: CopyEvent| {
        if let CopyEvent::Planned(now) = event {
            if shown == 0 {
                look.recv().unwrap();
            }
            assert_eq!(now, planned(shown));
            shown += 1;
        }
    };
    let summary = send_plain(&sender, source, rehearsal(), watch).unwrap();
    assert_eq!((summary.entries, shown), (1, PLANNED));
    drop(sender);
    receiver.join().unwrap().unwrap();
}

#[test]
fn slow_receiver_sends_keepalives() {
    let target = Target {
        path: b"/no-such-folder/".to_vec(),
        landing: Landing::Inside,
    };
    let target_folder =
        TargetFolder::open(&target, &Arc::new(FileAccess::anywhere()), true).unwrap();
    let [receiver, sender] = sessions();
    let (said, look) = channel();
    let sender = thread::spawn(move || {
        let list = sender.control.open(LIST)?;
        say(
            &list,
            &Listing::Begin {
                naming: Naming::Several,
            },
        )?;
        say(&list, &Listing::Entries(pack(&[entry()])?))?;
        hear_of_life(&sender)?;
        said.send(()).ok();
        say(&list, &Listing::End)?;
        while !matches!(sender.hear()?, Message::Result(_)) {}
        Ok::<_, Error>(())
    });
    let settings = receive::Settings {
        plain: true,
        options: rehearsal(),
        ..receive::Settings::default()
    };
    let mut shown = 0;
    let mut watcher = |event: CopyEvent| {
        if let CopyEvent::Planned(now) = event {
            look.recv().unwrap();
            assert_eq!((now.action, now.path), (Action::Create, entry().path));
            shown += 1;
        }
    };
    let role = Role::Client(false);
    receive(&receiver, role, target_folder, settings, &mut watcher).unwrap();
    assert_eq!(shown, 1);
    sender.join().unwrap().unwrap();
}

/// Waits until the peer has sent two keepalives.
fn hear_of_life(session: &Session) -> Result<(), Error> {
    for _ in 0..2 {
        let deadline = session.clock.now() + Duration::from_secs(30);
        let is_alive = |octets: &[u8]| {
            let message = own::Message::decode(octets);
            matches!(message, Ok(own::Message::Keepalive { .. }))
        };
        while !is_alive(&session.stream.receive(session.clock, deadline)?.octets) {}
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
        item: None,
        action: Action::Create,
        path: number.to_string().into_bytes(),
        bytes: number,
        kept: 0,
        why: String::new(),
    }
}

fn entry() -> Entry {
    Entry {
        kind: EntryKind::File(1),
        mode: 0o644,
        ..Entry::bare(b"a-file".to_vec())
    }
}

const PLANNED: u64 = 20_000;
