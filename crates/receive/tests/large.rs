//! Trees of any size in bounded memory, with each side in its own process.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stdout, reason = "messages between the processes")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::{env, fs};

use lighthaul_copy::message::{Landing, Target};
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::options::{Detail, Options};
use lighthaul_files::walk::Found;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::tcp::with_handshake_timeouts;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_receive::{self as receive, receive};
use lighthaul_send::{self as send, send};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

/// Memory does not grow with the tree: `LIGHTHAUL_TEST_ENTRIES=1000000` shows it.
#[test]
fn large_tree_takes_little_memory_on_either_side() {
    let entries: u64 = env::var(ENTRIES).map_or(200_000, |text| text.parse().unwrap());
    copies_in_little_memory(entries, &[]);
}

/// Names are kept until the end of their directory, since only the target may have others.
#[test]
fn directory_with_a_million_names_takes_little_memory_on_either_side() {
    let target = env::temp_dir().join(format!("lighthaul-flat-{}", std::process::id()));
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("only-here"), "").unwrap();
    // each name with its length is longer than 20 octets
    copies_in_little_memory(1_000_000, &[(FLAT, target.to_str().unwrap())]);
    fs::remove_dir_all(&target).unwrap();
}

fn copies_in_little_memory(entries: u64, shape: &[(&str, &str)]) {
    let clock = Clock::start();
    let mut receiver = Process::start("receive", shape);
    let port = receiver.says("port ");
    let count = entries.to_string();
    let of_sender = [shape, &[(PORT, &port), (ENTRIES, &count)]].concat();
    let mut sender = Process::start("send", &of_sender);
    // the receiver also reports a file that only the target has
    let only_here = shape.len() as u64;
    for (side, more) in [(&mut sender, 0), (&mut receiver, only_here)] {
        let told: u64 = side.says("told ").parse().unwrap();
        assert_eq!(told, entries + more, "{} reports every entry", side.role);
        let resident: u64 = side.says("VmHWM ").parse().unwrap();
        println!("{}: {resident} KiB", side.role);
        assert!(resident < 64 << 10, "{}: {resident} KiB", side.role);
        assert!(side.child.wait().unwrap().success());
    }
    let seconds = clock.now().as_secs_f64();
    println!("{:.0} entries a second", entries as f64 / seconds);
}

/// One side in its own process. Does nothing unless the other test started it.
#[test]
#[ignore = "the other test runs it"]
fn side() {
    match env::var(ROLE).as_deref() {
        Ok("receive") => receiving(),
        Ok("send") => sending(),
        _ => {}
    }
}

fn receiving() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    println!("\nport {}", listener.local_addr().unwrap().port());
    let tcp = with_handshake_timeouts(listener.accept().unwrap().0).unwrap();
    let session = Session::start(tcp, Side::Server, &Identity::generate()).unwrap();
    let target = Target {
        path: env::var(FLAT).map_or_else(|_| b"/no-such-folder/".to_vec(), String::into_bytes),
        landing: Landing::Inside,
    };
    let target_folder =
        TargetFolder::open(&target, &Arc::new(FileAccess::anywhere()), true).unwrap();
    let settings = receive::Settings {
        plain: true,
        options: options(),
        ..receive::Settings::default()
    };
    let mut told = 0;
    let mut watcher = |event| told += u64::from(matches!(event, CopyEvent::Planned(_)));
    let role = Role::Client(false);
    receive(&session, role, target_folder, settings, &mut watcher).unwrap();
    report(told);
}

fn sending() {
    let port: u16 = env::var(PORT).unwrap().parse().unwrap();
    let tcp =
        with_handshake_timeouts(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).unwrap();
    let session = Session::start(tcp, Side::Client, &Identity::generate()).unwrap();
    let entries = env::var(ENTRIES).unwrap().parse().unwrap();
    let entries: Box<dyn Iterator<Item = Found> + Send> = if env::var(FLAT).is_ok() {
        Box::new((0..entries).map(file))
    } else {
        Box::new(forest(entries))
    };
    let finds = SourceEntries::from_entries(Arc::new(FileAccess::anywhere()), entries);
    let settings = send::Settings {
        plain: true,
        options: options(),
        ..send::Settings::default()
    };
    let mut told = 0;
    let mut watcher = |event| told += u64::from(matches!(event, CopyEvent::Planned(_)));
    send(&session, Role::Client(false), finds, settings, &mut watcher).unwrap();
    report(told);
}

fn options() -> Options {
    Options {
        protocol: Protocol::Tcp.to_string(),
        dry_run: Some(Detail::All),
        delete: env::var(FLAT).is_ok(),
        ..Options::default()
    }
}

/// Prints the number of reported entries, and the peak memory of this process.
fn report(told: u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let resident = line.split_whitespace().nth(1).unwrap();
    println!("told {told}\nVmHWM {resident}");
}

/// Returns a file of the target directory.
fn file(nth: u64) -> Found {
    let path = format!("a-file-with-a-name-{nth:08}");
    let entry = Entry {
        kind: EntryKind::File(0),
        mode: 0o644,
        ..Entry::bare(path.clone().into_bytes())
    };
    Found::Entry(entry, PathBuf::from(path), None)
}

/// Returns this number of directories and files, in directories of a thousand.
fn forest(entries: u64) -> impl Iterator<Item = Found> + Send {
    let found = |path: String, kind: EntryKind| {
        let entry = Entry {
            kind,
            mode: 0o644,
            ..Entry::bare(path.clone().into_bytes())
        };
        Found::Entry(entry, PathBuf::from(path), None)
    };
    (0..entries).flat_map(move |nth| {
        let folder = format!("a-folder-with-a-name-{}", nth / 1000);
        let mut now = Vec::new();
        if nth % 1000 == 0 {
            now.push(found(folder.clone(), EntryKind::Folder));
        } else {
            now.push(found(
                format!("{folder}/a-file-{nth}"),
                EntryKind::File(nth),
            ));
        }
        if nth % 1000 == 999 || nth + 1 == entries {
            now.push(found(folder, EntryKind::FolderEnd));
        }
        now
    })
}

/// Process of one side.
struct Process {
    role: &'static str,
    child: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Process {
    fn start(role: &'static str, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["side", "--exact", "--ignored", "--nocapture"]);
        command.env(ROLE, role).envs(environment.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines = Box::new(lines.map_while(Result::ok));
        Self { role, child, lines }
    }

    /// Returns the rest of the next line that begins with `word`.
    fn says(&mut self, word: &str) -> String {
        let mut rest = self.lines.by_ref().filter_map(|line| {
            let rest = line.strip_prefix(word)?;
            Some(rest.to_owned())
        });
        rest.next().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const ROLE: &str = "LIGHTHAUL_TEST_ROLE";
const PORT: &str = "LIGHTHAUL_TEST_PORT";
const ENTRIES: &str = "LIGHTHAUL_TEST_ENTRIES";
/// Directory of the target, if the tree is one directory and others are deleted there.
const FLAT: &str = "LIGHTHAUL_TEST_FLAT";
