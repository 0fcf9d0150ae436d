//! A database that was restored from a real backup.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use lighthaul_booking::books::{Books, Config};
use lighthaul_booking::store::postgres::Postgres;

use crate::server::Server;
use crate::taking_over::Folder;
use crate::world::{BEGIN, ada, all_for, open};

/// Way to make a backup and to restore it.
#[derive(Clone, Copy, Debug)]
enum Backup {
    /// Files of `pg_dump`.
    Dump,
    /// Copy inside the server.
    Template,
}

#[test]
fn restored_database_is_refused_until_accepted() {
    for backup in [Backup::Dump, Backup::Template] {
        let Some(server) = Server::start() else {
            return;
        };
        restores(&server, backup);
    }
}

fn restores(server: &Server, backup: Backup) {
    server.ask("CREATE DATABASE books");
    let folder = Folder::make(&format!("restored-{backup:?}"));
    let now = Arc::new(AtomicU64::new(BEGIN));
    let start = |url: &str, accept_restored| {
        let config = Config {
            position_file: Some(folder.0.join(url.replace('/', "-"))),
            accept_restored,
            ..Config::default()
        };
        let store = Postgres::open(&books(server), url).unwrap();
        open(Box::new(store), config, &now)
    };
    let first = start("http://one", false).unwrap();
    let reserved = first.reserve(&ada(), &all_for(1), None).unwrap();
    drop(first);
    backup.make(server, &folder);
    let running = start("http://one", false).unwrap();
    let lost = running.reserve(&ada(), &all_for(1), None).unwrap();
    backup.restore(server, &folder);
    // the instance that runs has lost its connection, and connects to the older books
    let says = (0..3).map(|_| said(&running));
    let says: Vec<String> = says.collect();
    assert!(
        says.iter()
            .all(|said| said.contains("nothing was changed") || is_backwards(said)),
        "{backup:?}: {says:?}"
    );
    assert!(
        says.last().is_some_and(|said| is_backwards(said)),
        "{backup:?}: {says:?}"
    );
    assert!(running.tick().is_err());
    assert!(running.status().why.is_some_and(|why| is_backwards(&why)));
    drop(running);
    // and so does one that starts
    let why = start("http://one", false).unwrap_err().to_string();
    assert!(is_backwards(&why), "{backup:?}: {why}");
    let accepted = start("http://one", true).unwrap();
    assert_eq!(accepted.get(&ada(), reserved.id).unwrap().id, reserved.id);
    let next = accepted.reserve(&ada(), &all_for(1), None).unwrap();
    assert!(next.id > lost.id + 1000, "{} behind {}", next.id, lost.id);
    drop(accepted);
    start("http://one", false).unwrap();
}

impl Backup {
    fn make(self, server: &Server, folder: &Folder) {
        match self {
            Self::Dump => {
                let mut dump = server.program("pg_dump");
                let dump = dump.arg("-d").arg(books(server));
                let dump = dump.arg("-f").arg(folder.0.join("dump"));
                assert!(dump.status().unwrap().success());
            }
            Self::Template => server.ask("CREATE DATABASE backup TEMPLATE books"),
        }
    }

    fn restore(self, server: &Server, folder: &Folder) {
        server.ask("DROP DATABASE books WITH (FORCE)");
        match self {
            Self::Dump => {
                server.ask("CREATE DATABASE books");
                let mut restore = server.program("psql");
                restore.args(["-q", "-v", "ON_ERROR_STOP=1"]);
                let restore = restore.arg("-d").arg(books(server));
                let restore = restore.arg("-f").arg(folder.0.join("dump"));
                assert!(restore.stdout(Stdio::null()).status().unwrap().success());
            }
            Self::Template => server.ask("ALTER DATABASE backup RENAME TO books"),
        }
    }
}

/// Returns the URL of the database of the books.
fn books(server: &Server) -> String {
    server.url().replace("dbname=postgres", "dbname=books")
}

fn said(books: &Books) -> String {
    let answer = books.reserve(&ada(), &all_for(1), None);
    answer.unwrap_err().to_string()
}

fn is_backwards(said: &str) -> bool {
    said.contains("is older than before") && said.contains("--accept-restored")
}
