//! Remote files: the command `cat`, and the client that other programs use.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::process::Stdio;
use std::thread;

use lighthaul_base::Rng;
use lighthaul_files::hash::HashKind;
use lighthaul_files::request::FileKind;
use lighthaul_remote::daemon::Daemon;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::Route;
use lighthaul_remote::ssh::install::Install;
use lighthaul_remote_files::client::ranges::ByteRange;
use lighthaul_remote_files::client::remote_files::RemoteFiles;
use lighthaul_remote_files::failure::{Failure, FailureKind};
use lighthaul_remote_files::server::shared::FILES_MAX;
use lighthaul_session::error::{Code, Error};

use crate::far::Far;
use crate::files::run;
use crate::running::becomes_true;
use crate::scratch::{names, noise};

/// Starts a daemon with a root.
pub(crate) fn daemon(name: &str) -> Far {
    Far::start(name, &["--root", "ROOT"])
}

fn place(far: &Far, path: &str) -> String {
    format!("lh://127.0.0.1:{}/{path}", far.port)
}

/// Connects to the files of a daemon.
pub(crate) fn connect(far: &Far, changes: bool) -> Result<RemoteFiles, Error> {
    let route = Route {
        install: Install::Never,
        daemon: Daemon {
            pin: Some(far.pin.clone()),
            key: Some(far.near.key()),
            ..Daemon::default()
        },
        ..Route::default()
    };
    let place = Place::parse(&place(far, ""))?;
    lighthaul_remote::files::connect(&route, &place, changes)
}

fn range(path: &str, offset: u64, len: u64) -> ByteRange {
    ByteRange {
        path: path.into(),
        offset,
        len,
    }
}

/// Returns the output of `lighthaul cat` with the arguments `words`.
fn cat(far: &Far, words: &[&str]) -> std::process::Output {
    let mut command = far.near.lighthaul(&["cat"]);
    command
        .args(words)
        .args(["--pin", &far.pin, "--key"])
        .arg(far.near.key());
    command.output().unwrap()
}

#[test]
fn ranges_have_the_bytes_of_the_file_up_to_its_end() {
    let far = daemon("cat-ranges");
    let size = 3_000_001;
    let content = noise(size, 5);
    fs::write(far.target.join("data"), &content).unwrap();
    let files = connect(&far, false).unwrap();
    let mut rng = Rng::new(7);
    let mut wanted: Vec<ByteRange> = (0..300)
        .map(|_| range("data", rng.below(size + 1000), rng.below(70_000)))
        .collect();
    wanted.push(range("data", 0, u64::MAX));
    wanted.push(range("data", u64::MAX, 5));
    wanted.push(range("data", size, 5));
    wanted.push(range("data", size - 1, 5));
    let found = files.cat_ranges(&wanted);
    for (range, found) in wanted.iter().zip(found) {
        let from = range.offset.min(size) as usize;
        let till = range.offset.saturating_add(range.len).min(size) as usize;
        assert!(found.unwrap() == content[from..till], "seed 7, {range:?}");
    }
}

#[test]
fn range_of_a_missing_file_does_not_affect_other_ranges() {
    let far = daemon("cat-missing");
    for nth in 0..700 {
        fs::write(far.target.join(format!("{nth}")), format!("file {nth}")).unwrap();
    }
    fs::create_dir(far.target.join("folder")).unwrap();
    let files = connect(&far, false).unwrap();
    let mut wanted: Vec<ByteRange> = (0..700).map(|nth| range(&nth.to_string(), 0, 99)).collect();
    wanted.push(range("gone", 0, 5));
    wanted.push(range("folder", 0, 5));
    wanted.push(range("../allowed", 0, 5));
    let found = files.cat_ranges(&wanted);
    for (nth, bytes) in found[..700].iter().enumerate() {
        assert_eq!(bytes.as_deref().unwrap(), format!("file {nth}").as_bytes());
    }
    let kinds: Vec<FailureKind> = found[700..]
        .iter()
        .map(|found| found.as_ref().unwrap_err().kind)
        .collect();
    let expected = [
        FailureKind::NotFound,
        FailureKind::IsFolder,
        FailureKind::Denied,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn reads_of_many_threads_have_the_bytes_of_the_file() {
    let far = daemon("readers");
    let size = 9_000_000;
    let content = noise(size, 6);
    fs::write(far.target.join("data"), &content).unwrap();
    let files = connect(&far, false).unwrap();
    let reader = files.open(b"data").unwrap();
    assert_eq!(reader.size(), size);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (reader, content) = (&reader, &content);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                let mut at = 0;
                while at < size {
                    let len = rng.below(300_000) + 1;
                    let bytes = reader.read_at(at, len as usize).unwrap();
                    let till = (at + len).min(size);
                    assert!(bytes == content[at as usize..till as usize], "at {at}");
                    // now and then elsewhere
                    at = if rng.below(20) == 0 {
                        rng.below(size)
                    } else {
                        till
                    };
                }
            });
        }
    });
    assert_eq!(reader.read_at(size, 10).unwrap(), b"");
    assert_eq!(reader.read_at(u64::MAX, 10).unwrap(), b"");
}

#[test]
fn cat_prints_files_and_ranges() {
    let far = daemon("cat");
    let content = noise(2_500_000, 8);
    fs::write(far.target.join("data"), &content).unwrap();
    fs::write(far.target.join("small"), "0123456789").unwrap();
    symlink("small", far.target.join("link")).unwrap();
    symlink("../allowed", far.target.join("out")).unwrap();
    let [data, small] = ["data", "small"].map(|path| place(&far, path));
    let found = cat(&far, &[&data, &small]);
    assert!(found.status.success(), "{found:?}");
    assert!(found.stdout == [content.as_slice(), b"0123456789"].concat());
    let local = far.target.join("small");
    let local = local.to_str().unwrap();
    for (words, printed) in [
        (vec!["--range", "2-4", &small, local], "234234"),
        (vec!["--range", "8-99", &small], "89"),
        (vec!["-r", "7-", &small, local], "789789"),
        (vec!["--range", "-2", &small, local], "8989"),
        (vec![&place(&far, "link")], "0123456789"),
    ] {
        let found = cat(&far, &words);
        assert!(found.status.success(), "{words:?} {found:?}");
        assert_eq!(String::from_utf8_lossy(&found.stdout), printed, "{words:?}");
    }
    let past = format!("cannot read that range of {small}: the file has 10 bytes");
    for (words, status, says) in [
        (vec!["--range", "10-", &small], 1, past.as_str()),
        (vec![&place(&far, "gone")], 3, "no such file"),
        (vec![&place(&far, "gone"), &small], 23, "no such file"),
        (vec![&place(&far, "out")], 13, "cannot open"),
        (vec![&place(&far, "")], 3, "is a directory"),
        (vec!["--range", "4-2", &small], 1, "is no range"),
    ] {
        let found = cat(&far, &words);
        let text = String::from_utf8_lossy(&found.stderr).to_lowercase();
        assert!(text.contains(&says.to_lowercase()), "{words:?} {found:?}");
        assert_eq!(found.status.code(), Some(status), "{words:?} {text}");
    }
}

#[test]
fn cat_ends_without_an_error_when_its_reader_closes_the_pipe() {
    let far = daemon("cat-pipe");
    fs::write(far.target.join("data"), noise(4_000_000, 9)).unwrap();
    let mut command = far.near.lighthaul(&["cat", &place(&far, "data")]);
    command
        .args(["--pin", &far.pin, "--key"])
        .arg(far.near.key())
        .stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut first = [0; 10];
    running
        .stdout
        .take()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    assert!(running.wait().unwrap().success());
}

#[test]
fn restart_of_the_server_does_not_affect_an_open_file() {
    let mut far = Far::start("cat-restart", &[]);
    let content = noise(9_000_000, 10);
    let path = far.target.join("data");
    let name = path.to_str().unwrap();
    fs::write(&path, &content).unwrap();
    let files = connect(&far, false).unwrap();
    let reader = files.open(name.as_bytes()).unwrap();
    assert!(reader.read_at(0, 100_000).unwrap() == content[..100_000]);
    far.restart();
    assert!(reader.read_at(5_000_000, 700_000).unwrap() == content[5_000_000..5_700_000]);
    let found = files.cat_ranges(&[range(name, 17, 2_000_000)]);
    assert!(found[0].as_ref().unwrap() == &content[17..2_000_017]);
    // another version is not mixed with the first one
    far.daemon.kill();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .write_all_at(b"other", 0)
        .unwrap();
    far.restart();
    let failure = reader.read_at(1_000_000, 100).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Changed, "{failure}");
    assert_eq!(failure.code, Code::Changed);
}

#[test]
fn change_of_an_open_file_is_an_error() {
    let far = daemon("cat-changes");
    let files = connect(&far, false).unwrap();
    for change in ["rewritten", "replaced", "shorter", "longer"] {
        let path = far.target.join("data");
        fs::write(&path, noise(5_000_000, 11)).unwrap();
        let reader = files.open(b"data").unwrap();
        assert_eq!(reader.read_at(0, 10).unwrap().len(), 10);
        let file = OpenOptions::new().append(true).open(&path).unwrap();
        match change {
            "rewritten" => fs::write(&path, noise(5_000_000, 12)).unwrap(),
            "replaced" => {
                fs::write(far.target.join("new"), noise(5_000_000, 12)).unwrap();
                fs::rename(far.target.join("new"), &path).unwrap();
            }
            "shorter" => file.set_len(10).unwrap(),
            _ => (&file).write_all(b"more").unwrap(),
        }
        let failure = reader.read_at(3_000_000, 10).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Changed, "{change}: {failure}");
        let again = files.open(b"data").unwrap();
        assert_eq!(again.size(), fs::metadata(&path).unwrap().len());
    }
}

#[test]
fn written_file_appears_complete_at_the_commit() {
    let far = daemon("write");
    let content = noise(3_000_000, 13);
    let files = connect(&far, true).unwrap();
    let writer = files.create(b"new", None, false).unwrap();
    // the header last, as programs do that learn sizes at the end
    writer.write(&content[100..], 100).unwrap();
    writer.write(&content[..100], 0).unwrap();
    assert_eq!(files.list(b"").unwrap(), []);
    let digest = *blake3::hash(&content).as_bytes();
    let version = writer.commit(Some(digest)).unwrap();
    assert_eq!(version.size, content.len() as u64);
    let path = far.target.join("new");
    assert!(fs::read(&path).unwrap() == content);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o644
    );
    // after its commit it grows at its end only
    writer.write(b"more", version.size).unwrap();
    writer.commit(None).unwrap();
    assert!(fs::read(&path).unwrap() == [&content[..], b"more"].concat());
    // the write fails if the answer is there already, or else the commit
    let rewritten = writer.write(b"less", 0);
    let rewritten = rewritten.and_then(|()| writer.commit(None).map(drop));
    assert_eq!(rewritten.unwrap_err().kind, FailureKind::Changed);
    drop(writer);
    // a replaced file passes on its permission bits
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let writer = files.create(b"new", None, false).unwrap();
    writer.write(b"short", 0).unwrap();
    writer.commit(None).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"short");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    drop(writer);
    becomes_true("the lock file is removed", || names(&far.target) == ["new"]);
}

#[test]
fn file_without_a_commit_leaves_no_leftovers() {
    let mut far = Far::start("write-nothing", &[]);
    let path = far.target.join("new");
    let name = path.to_str().unwrap().as_bytes();
    let files = connect(&far, true).unwrap();
    let writer = files.create(name, None, true).unwrap();
    writer.write(b"bytes", 0).unwrap();
    let other = blake3::hash(b"other").into();
    let failure = writer.commit(Some(other)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Corrupt, "{failure}");
    drop(writer);
    becomes_true("nothing is left", || names(&far.target).is_empty());
    let writer = files.create(name, None, true).unwrap();
    writer.write(b"bytes", 0).unwrap();
    far.restart();
    let failure = writer
        .commit(None)
        .expect_err("the server removed the file");
    assert_eq!(failure.kind, FailureKind::Lost, "{failure}");
    assert_eq!(failure.code, Code::Network);
    let said = failure.to_string();
    assert!(
        said.starts_with(&format!("cannot write {}: ", path.display())),
        "{said}"
    );
    // the loss may be noticed before the commit or with it
    let advice = [
        "write it again from its start",
        "it is not known if the file is complete",
    ];
    assert!(advice.iter().any(|part| said.contains(part)), "{said}");
    // later calls say the same, and nothing is published
    let again = writer
        .write(b"more", 5)
        .and_then(|()| writer.commit(None).map(drop));
    assert_eq!(again.unwrap_err().to_string(), said);
    assert!(!path.exists());
    // the next writer takes over what the killed daemon left
    let writer = files.create(name, None, true).unwrap();
    writer.write(b"again", 0).unwrap();
    writer.commit(None).unwrap();
    drop(writer);
    becomes_true("the file is alone", || names(&far.target) == ["new"]);
    assert_eq!(fs::read(&path).unwrap(), b"again");
}

#[test]
fn second_writer_of_a_name_is_refused() {
    let far = daemon("write-two");
    let (one, two) = (connect(&far, true).unwrap(), connect(&far, true).unwrap());
    let first = one.create(b"name", None, false).unwrap();
    let failure = two.create(b"name", None, false).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Busy, "{failure}");
    assert!(failure.text.contains("another program"), "{failure}");
    first.write(b"first", 0).unwrap();
    first.commit(None).unwrap();
    let failure = two.append(b"name", None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Busy, "{failure}");
    drop(first);
    let mut second = None;
    becomes_true("the first writer is gone", || {
        second = two.append(b"name", Some(5)).ok();
        second.is_some()
    });
    let second = second.unwrap();
    second.write(b" second", 5).unwrap();
    second.commit(None).unwrap();
    drop(second);
    assert_eq!(fs::read(far.target.join("name")).unwrap(), b"first second");
    let mut failure = None;
    becomes_true("the second writer is gone", || {
        failure = two.append(b"name", Some(5)).err();
        failure
            .as_ref()
            .is_some_and(|failure| failure.kind != FailureKind::Busy)
    });
    assert_eq!(failure.unwrap().kind, FailureKind::Changed);
    let failure = two.create(b"name", None, true).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Exists, "{failure}");
    let failure = two.append(b"gone", None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound, "{failure}");
}

#[test]
fn server_renames_copies_removes_and_hashes() {
    let far = daemon("write-names");
    let files = connect(&far, true).unwrap();
    let content = noise(2_000_000, 14);
    fs::write(far.target.join("a"), &content).unwrap();
    files.make_folder(b"folder").unwrap();
    let failure = files.make_folder(b"folder").unwrap_err();
    assert_eq!(failure.kind, FailureKind::Exists);
    files.copy(b"a", b"folder/b", false).unwrap();
    assert!(fs::read(far.target.join("folder/b")).unwrap() == content);
    let failure = files.copy(b"a", b"folder/b", false).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Exists, "{failure}");
    files.rename(b"folder/b", b"c", false).unwrap();
    fs::write(far.target.join("d"), "d").unwrap();
    let failure = files.rename(b"c", b"d", false).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Exists, "{failure}");
    files.rename(b"c", b"d", true).unwrap();
    let (hashes, version) = files.hash(b"d", &[HashKind::Blake3]).unwrap();
    let expected = blake3::hash(&content).to_hex().to_string();
    assert_eq!(hashes.hashes, [(HashKind::Blake3, expected)]);
    let (info, found) = files.stat(b"d", true).unwrap();
    assert_eq!((info.size, version), (2_000_000, found));
    symlink("d", far.target.join("link")).unwrap();
    let kind = |follow| files.stat(b"link", follow).unwrap().0.kind;
    assert_eq!(kind(true), FileKind::File);
    assert_eq!(kind(false), FileKind::Link(b"d".to_vec()));
    let failure = files.remove(b"folder").unwrap_err();
    assert_eq!(failure.kind, FailureKind::IsFolder, "{failure}");
    fs::write(far.target.join("folder/x"), "").unwrap();
    let failure = files.remove_folder(b"folder").unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotEmpty, "{failure}");
    files.remove(b"folder/x").unwrap();
    files.remove_folder(b"folder").unwrap();
    files.remove(b"link").unwrap();
    let listed: Vec<Vec<u8>> = files
        .list(b"/")
        .unwrap()
        .into_iter()
        .map(|item| item.path)
        .collect();
    assert_eq!(listed, [b"a", b"d"]);
    for path in ["../allowed", "/../allowed", ".."] {
        assert!(files.remove(path.as_bytes()).is_err(), "{path}");
        assert!(
            files.create(path.as_bytes(), None, false).is_err(),
            "{path}"
        );
        assert!(files.rename(b"a", path.as_bytes(), true).is_err(), "{path}");
    }
    assert!(far.near.allowed().exists());
}

#[test]
fn changes_need_the_right_to_write() {
    let far = daemon("write-rights");
    fs::write(far.target.join("a"), "a").unwrap();
    // a client that did not ask for changes cannot make any
    let reads = connect(&far, false).unwrap();
    let failure = reads.remove(b"a").unwrap_err();
    assert_eq!(failure.kind, FailureKind::ReadOnly, "{failure}");
    assert!(reads.create(b"b", None, false).is_err());
    assert!(reads.copy(b"a", b"b", false).is_err());
    let mut key = far.near.lighthaul(&["key", "--key"]);
    key.arg(far.near.key());
    let key = far.near.run(key).assert_succeeded().out.concat();
    let mut allow = far
        .near
        .lighthaul(&["allow", &key, "tester", "--read-only"]);
    allow.arg("--allowed").arg(far.near.allowed());
    far.near.run(allow).assert_succeeded();
    let files = connect(&far, true).unwrap();
    let failure = files.stat(b"a", true).unwrap_err();
    assert_eq!(failure.code, Code::Permission, "{failure}");
    assert!(connect(&far, false).unwrap().stat(b"a", true).is_ok());
    assert!(far.target.join("a").exists());
    run(&far, &["cat", &place(&far, "a")]).assert_succeeded();
}

#[test]
fn session_refuses_files_beyond_its_limit_and_accepts_files_later() {
    let far = daemon("limit");
    fs::write(far.target.join("file"), "bytes").unwrap();
    let files = connect(&far, true).unwrap();
    let mut open: Vec<_> = (0..FILES_MAX)
        .map(|_| files.open(b"file").unwrap())
        .collect();
    let kind = |failure: Failure| failure.kind;
    // a refused opening counts for nothing, however often it is tried
    for _ in 0..FILES_MAX + 9 {
        assert_eq!(
            files.open(b"file").map_err(kind).err(),
            Some(FailureKind::Busy)
        );
    }
    let created = files.create(b"new", None, false).map_err(kind);
    assert_eq!(created.err(), Some(FailureKind::Busy));
    let first = ByteRange {
        path: b"file".to_vec(),
        offset: 0,
        len: 5,
    };
    assert_eq!(
        files.cat_ranges(&[first]).remove(0).unwrap_err().kind,
        FailureKind::Busy
    );
    assert!(
        open.iter()
            .all(|reader| reader.read_at(0, 5).unwrap() == b"bytes")
    );
    open.pop();
    becomes_true("another file can be open", || files.open(b"file").is_ok());
    assert_eq!(names(&far.target), ["file"]);
}
