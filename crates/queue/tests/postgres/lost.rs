//! Answers to commits that are lost, and locks that hold one job.
#![expect(clippy::disallowed_methods, reason = "a proxy in a test")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use lighthaul_queue::claims::Report;
use lighthaul_queue::job::JobEnd;
use lighthaul_queue::worker::{Activity, WorkerSettings, now, work};
use lighthaul_queue::{Error, JobState, Queue};
use lighthaul_testkit::PostgresServer;

use crate::rules::{claim, ended, state};
use crate::workers::{program, settings};
use crate::{Folder, spec};

/// Proxy in front of a server. Once `drops` is set, it executes the next commit, but loses the answer and the connection.
struct Proxy {
    port: u16,
    drops: Arc<AtomicBool>,
    /// True while all further connections are refused.
    refuses: Arc<AtomicBool>,
}

impl Proxy {
    fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (drops, refuses) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let shared = (Arc::clone(&drops), Arc::clone(&refuses));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.1.load(SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let drops = Arc::clone(&shared.0);
                thread::spawn(move || pass(client, server, &drops));
            }
        });
        Self {
            port,
            drops,
            refuses,
        }
    }
}

/// Carries bytes until one side closes.
fn pass(mut client: TcpStream, mut server: TcpStream, drops: &Arc<AtomicBool>) {
    let lost = Arc::new(AtomicBool::new(false));
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let is_lost = Arc::clone(&lost);
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(len @ 1..) = answers.read(&mut buffer) {
            if is_lost.load(SeqCst) || back.write_all(&buffer[..len]).is_err() {
                // the commit was executed before its answer came
                break;
            }
        }
        back.shutdown(Shutdown::Both).ok();
    });
    let mut buffer = [0; 8192];
    while let Ok(len @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..len];
        let is_commit = bytes.windows(7).any(|window| window == b"COMMIT\0");
        if is_commit && drops.swap(false, SeqCst) {
            lost.store(true, SeqCst);
        }
        if server.write_all(bytes).is_err() {
            break;
        }
    }
    server.shutdown(Shutdown::Both).ok();
}

fn through(server: &PostgresServer) -> (Proxy, Queue) {
    let port = server.begin_on_port("-c listen_addresses=127.0.0.1");
    let proxy = Proxy::start(port);
    let url = format!("postgres://lighthaul@127.0.0.1:{}/postgres", proxy.port);
    let queue = Queue::open(url.as_ref()).unwrap();
    (proxy, queue)
}

fn stopped() -> Option<PostgresServer> {
    let server = PostgresServer::start()?;
    server.control("stop", "fast");
    Some(server)
}

#[test]
fn change_whose_answer_is_lost_is_made_once() {
    let Some(server) = stopped() else {
        return;
    };
    let (proxy, mut queue) = through(&server);
    proxy.drops.store(true, SeqCst);
    let ids = queue.submit(1, &[spec()]).unwrap();
    assert!(!proxy.drops.load(SeqCst), "no commit was lost");
    let all = queue.counts().unwrap();
    assert_eq!(all.values().sum::<u64>(), 1, "{all:?}");
    let attempt = claim(&mut queue, 2).unwrap();
    proxy.drops.store(true, SeqCst);
    let log = Report {
        log: "a line\n".to_owned(),
        ..Report::default()
    };
    assert!(
        queue
            .finish(3, attempt, &ended(JobEnd::Done), &log)
            .unwrap()
    );
    assert_eq!(queue.log(ids[0], (0, 0), 9).unwrap().len(), 1);
    proxy.drops.store(true, SeqCst);
    let canceled = queue.submit(4, &[spec()]).unwrap()[0];
    proxy.drops.store(true, SeqCst);
    assert_eq!(queue.cancel(5, canceled).unwrap(), JobState::Canceled);
}

#[test]
fn result_that_cannot_be_found_out_is_told_as_unknown() {
    let Some(server) = stopped() else {
        return;
    };
    let (proxy, mut queue) = through(&server);
    let id = queue.submit(1, &[spec()]).unwrap()[0];
    let attempt = claim(&mut queue, 2).unwrap();
    proxy.drops.store(true, SeqCst);
    proxy.refuses.store(true, SeqCst);
    let why = queue.finish(3, attempt, &ended(JobEnd::Done), &Report::default());
    let why = why.unwrap_err();
    assert!(matches!(why, Error::Unsure(_)), "{why}");
    assert!(why.to_string().contains("it is not known whether"), "{why}");
    proxy.refuses.store(false, SeqCst);
    // the worker repeats it, and learns that it was the first one that counted
    assert!(
        !queue
            .finish(4, attempt, &ended(JobEnd::Done), &Report::default())
            .unwrap()
    );
    assert!(queue.has_finished(attempt, &ended(JobEnd::Done)).unwrap());
    assert!(!queue.has_finished(attempt, &ended(JobEnd::Failed)).unwrap());
    assert_eq!(state(&mut queue, id), JobState::Done);
}

#[test]
fn tables_of_an_earlier_version_are_refused() {
    let folder = Folder::new("older");
    drop(folder.queue());
    let sql = "UPDATE queue SET format = 3; DROP TABLE room";
    folder.ask(&format!("SET search_path TO {}; {sql}", folder.schema));
    for _ in 0..2 {
        let error = Queue::open(&folder.place()).unwrap_err();
        let is_older = matches!(error, Error::ServerFormat { found: 3, .. });
        assert!(is_older, "{error}");
        assert!(
            error.to_string().contains("with the earlier version"),
            "{error}"
        );
    }
}

#[test]
fn server_that_was_started_again_is_not_asked_for_an_old_transaction() {
    let Some(server) = stopped() else {
        return;
    };
    let (proxy, mut queue) = through(&server);
    // the server executes the commit, and is started again before it is asked
    let id = queue.submit(1, &[spec()]).unwrap()[0];
    proxy.drops.store(true, SeqCst);
    proxy.refuses.store(true, SeqCst);
    let (drops, refuses) = (Arc::clone(&proxy.drops), Arc::clone(&proxy.refuses));
    let why = thread::scope(|scope| {
        scope.spawn(|| {
            while drops.load(SeqCst) {
                thread::yield_now();
            }
            server.control("restart", "immediate");
            refuses.store(false, SeqCst);
        });
        queue.cancel(2, id).unwrap_err()
    });
    assert!(matches!(why, Error::Unsure(_)), "{why}");
}

#[test]
fn locked_job_does_not_keep_the_ends_of_others_from_being_stored() {
    let folder = Folder::new("held");
    let program = program(
        &folder,
        r#"echo '{"type":"summary","bytes":7,"entries":1}'"#,
    );
    let mut queue = folder.queue();
    let ids = queue.submit(now(), &[spec(), spec(), spec()]).unwrap();
    let mut other = postgres::Client::connect(&folder.server.url(), postgres::NoTls).unwrap();
    let mut lock = None;
    let mut told = Vec::new();
    let worker = WorkerSettings {
        lease: std::time::Duration::from_mins(5),
        ..settings(program)
    };
    let sql = format!(
        "SELECT 1 FROM {}.job WHERE id = 1 FOR UPDATE",
        folder.schema
    );
    work(
        &mut queue,
        &worker,
        &|| false,
        &mut |activity| match activity {
            Activity::Starts(_) if lock.is_none() => {
                other.batch_execute("BEGIN").unwrap();
                other.execute(&sql, &[]).unwrap();
                lock = Some(());
            }
            Activity::Ended(job, _) => {
                told.push(job.id);
                if told.len() == 2 {
                    other.batch_execute("ROLLBACK").unwrap();
                }
            }
            Activity::Starts(_)
            | Activity::Lost(_)
            | Activity::Yields(_)
            | Activity::Fails(_)
            | Activity::Recovers => {}
        },
    )
    .unwrap();
    // the locked one is last
    assert_eq!(told.last(), Some(&ids[0]), "{told:?}");
    assert_eq!(told.len(), 3);
}
