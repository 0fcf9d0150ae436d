//! Peers that only say that they are there, and honest ones that work for long without a byte.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;
mod offer;
mod plain;
mod talk;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, thread};

use lighthaul_copy::message::{LIST, Landing, Listing, Message, Target};
use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Options;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::control::Frame;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_receive::{self as receive, receive};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message as own;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

use ends::sessions;
use offer::offer;
use plain::send_plain;
use talk::stay;

#[test]
fn sender_that_only_sends_keepalives_is_ended() {
    let error = take(|session| {
        begin_to_send(session, true)?;
        repeat(session, |_| 7, LONG)
    });
    assert_idle(error);
}

#[test]
fn sender_that_never_begins_its_list_is_ended() {
    let error = take(|session| {
        begin_to_send(session, false)?;
        repeat(session, |_| 7, LONG)
    });
    assert_idle(error);
}

#[test]
fn receiver_ends_if_the_sender_does_not_close() {
    let (outcome, liar) = start_to_take(|session| {
        begin_to_send(session, true)?;
        let list = session.control.open(LIST)?;
        list.send(&Frame::message(Listing::End.encode()))?;
        session.say(&Message::Sent)?;
        // ends with an error, since the peer leaves first
        repeat(session, |_| 7, 6 * LONG)?;
        panic!("the peer waits for more than a minute")
    });
    assert_eq!(outcome.unwrap().entries, 0);
    assert!(liar.join().is_ok());
}

#[test]
fn receiver_that_only_sends_keepalives_is_ended() {
    assert_idle(give(|session| repeat(session, |_| 7, LONG)));
}

#[test]
fn receiver_waits_for_a_sender_that_works_without_sending() {
    let (outcome, liar) = start_to_take(|session| {
        begin_to_send(session, true)?;
        repeat(session, |nth| nth, LONG)?;
        let list = session.control.open(LIST)?;
        list.send(&Frame::message(Listing::End.encode()))?;
        session.say(&Message::Sent)?;
        stay(session);
        Ok(())
    });
    assert_eq!(outcome.unwrap().entries, 0);
    assert!(liar.join().is_ok());
}

/// Seconds for which peers say that they are there; a transfer without work ends before.
const LONG: u64 = 9;

/// Sends a keepalive message each second, with the counter that `work` returns.
fn repeat(session: &Session, work: impl Fn(u64) -> u64, seconds: u64) -> Result<(), Error> {
    for nth in 0..seconds {
        session.say(&own::Message::Keepalive { work: work(nth) })?;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Begins a transfer to the peer, and perhaps its list.
fn begin_to_send(session: &Session, lists: bool) -> Result<(), Error> {
    let list = session.control.open(LIST)?;
    if lists {
        list.send(&Frame::message(
            Listing::Begin {
                naming: Naming::Several,
            }
            .encode(),
        ))?;
    }
    let dialog = session.path_dialog(Arc::default())?;
    dialog.say(&Message::Offer(offer()))
}

/// Asserts that a transfer ended because the peer did nothing.
fn assert_idle(error: Option<Error>) {
    let error = error.expect("the peer is waited for");
    assert_eq!(error.code(), Code::TimedOut, "{error}");
    assert!(error.text().contains("has done nothing for 2 s"), "{error}");
}

/// Receives from a peer that does what `liar` does.
fn take(liar: impl FnOnce(&Session) -> Result<(), Error> + Send + 'static) -> Option<Error> {
    let (outcome, liar) = start_to_take(liar);
    liar.join().unwrap();
    outcome.err()
}

fn start_to_take(
    liar: impl FnOnce(&Session) -> Result<(), Error> + Send + 'static,
) -> (Result<Summary, Error>, JoinHandle<()>) {
    let [honest, other] = sessions();
    let liar = thread::spawn(move || {
        // the peer ends the session sooner or later
        liar(&other).ok();
    });
    let target = Target {
        path: folder("target").into_os_string().into_encoded_bytes(),
        landing: Landing::Inside,
    };
    let target_folder =
        TargetFolder::open(&target, &Arc::new(FileAccess::anywhere()), false).unwrap();
    let settings = receive::Settings {
        plain: true,
        options: brief(),
        ..receive::Settings::default()
    };
    let role = Role::Client(false);
    let outcome = receive(
        &honest,
        role,
        target_folder,
        settings,
        &mut |_: CopyEvent| {},
    );
    drop(honest);
    (outcome, liar)
}

/// Sends a file to a peer that does what `liar` does.
fn give(liar: impl FnOnce(&Session) -> Result<(), Error> + Send + 'static) -> Option<Error> {
    let source = folder("source").join("file");
    fs::write(&source, vec![7; 100_000]).unwrap();
    let [honest, other] = sessions();
    let liar = thread::spawn(move || {
        liar(&other).ok();
    });
    let outcome = send_plain(&honest, source, brief(), |_: CopyEvent| {});
    drop(honest);
    liar.join().unwrap();
    outcome.err()
}

/// Options with a short limit, in which a peer speaks more than once.
fn brief() -> Options {
    Options {
        stall: 2,
        ..Options::default()
    }
}

fn folder(name: &str) -> std::path::PathBuf {
    let thread = thread::current();
    let name = format!("idle-{name}-{}", thread.name().unwrap_or_default());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_dir_all(&path).ok();
    fs::create_dir_all(&path).unwrap();
    path
}
