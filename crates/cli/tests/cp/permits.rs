//! Rights of a peer on the disk of a daemon: owners, special bits, privileged attributes, and replacement of files.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::fingerprint;
use lighthaul_testkit::{allowance, lacks_root};

use crate::far::Far;
use crate::running::Running;

/// Lists the caller's key with `options`.
pub(crate) fn allow(far: &Far, options: &[&str]) {
    let identity = Identity::load_or_generate(&far.near.key()).unwrap();
    let key = fingerprint(&identity).unwrap().to_string();
    let mut allow = far.near.lighthaul(&["allow", &key, "tester", "--allowed"]);
    allow.arg(far.near.allowed()).args(options);
    far.near.run(allow).assert_succeeded();
}

/// Reports whether owners and devices can be tested. Records a skip if not.
fn is_root() -> bool {
    !lacks_root("owners and devices")
}

#[test]
fn set_user_id_needs_the_special_right() {
    let far = Far::start("set-id", &[]);
    allow(&far, &[]);
    let program = far.near.file("program", 100);
    if is_root() {
        chown(&program, Some(4321), Some(4321)).unwrap();
    }
    fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    let outcome = far.push(&["-a"], &[&program], "program").assert_succeeded();
    let left = fs::metadata(far.target.join("program")).unwrap();
    assert_eq!(left.mode() & 0o7777, 0o755);
    assert!(
        outcome.said("set-group-ID and sticky bits could not be kept"),
        "{outcome:?}"
    );
    if lacks_root("set_user_id_needs_the_special_right") {
        return;
    }
    assert_eq!(left.uid(), 0);
    assert!(
        outcome.said("owner and group could not be kept"),
        "{outcome:?}"
    );
    assert!(outcome.said("lighthaul allow --owners"), "{outcome:?}");
    // a second copy finds nothing to change
    far.push(&["-a"], &[&program], "program").assert_succeeded();
    allow(&far, &["--owners"]);
    far.push(&["-a"], &[&program], "owned").assert_succeeded();
    let left = fs::metadata(far.target.join("owned")).unwrap();
    assert_eq!((left.mode() & 0o7777, left.uid()), (0o755, 4321));
    allow(&far, &["--owners", "--special"]);
    let outcome = far.push(&["-a"], &[&program], "all").assert_succeeded();
    let left = fs::metadata(far.target.join("all")).unwrap();
    assert_eq!((left.mode() & 0o7777, left.uid()), (0o4755, 4321));
    assert!(!outcome.said("could not be kept"), "{outcome:?}");
}

#[test]
fn directories_keep_an_inherited_set_group_id_bit() {
    let far = Far::start("set-group", &[]);
    allow(&far, &[]);
    let shared = far.target.join("shared");
    fs::create_dir(&shared).unwrap();
    if is_root() {
        chown(&shared, None, Some(4321)).unwrap();
    }
    let group = fs::metadata(&shared).unwrap().gid();
    fs::set_permissions(&shared, PermissionsExt::from_mode(0o2775)).unwrap();
    let tree = far.near.folder("tree");
    fs::create_dir_all(tree.join("in/side")).unwrap();
    fs::write(tree.join("in/side/file"), "x").unwrap();
    for folder in ["", "in", "in/side"] {
        fs::set_permissions(tree.join(folder), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let like = |path: &str| {
        let left = fs::metadata(shared.join(path)).unwrap();
        (left.mode() & 0o7777, left.gid())
    };
    for options in [&[][..], &["-a"]] {
        far.push(options, &[&tree], "shared/").assert_succeeded();
        for path in ["tree", "tree/in", "tree/in/side"] {
            assert_eq!(like(path), (0o2755, group), "{options:?}: {path}");
        }
        assert_eq!(like("tree/in/side/file").1, group);
    }
    let contents = format!("{}/", tree.display());
    far.push(&["-a"], &[Path::new(&contents)], "shared/")
        .assert_succeeded();
    assert_eq!(like("."), (0o2755, group));
    // a key that may set such bits also removes them if the source has none
    allow(&far, &["--special"]);
    far.push(&[], &[&tree], "shared/").assert_succeeded();
    assert_eq!(like("tree/in").0, 0o755);
}

#[test]
fn special_files_are_replaced_only_with_replace_special() {
    let far = Far::start("special", &[]);
    allow(&far, &[]);
    let file = far.near.file("x", 100);
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let at = |path: &Path| fs::symlink_metadata(path).unwrap().file_type();
    // remote and local, alone, in a tree, and as an entry that --delete would remove
    let there = far.target.join("pipe");
    fifo(&there);
    far.push(&[], &[&file], "pipe")
        .assert_failed(3, "pipe: it is a FIFO");
    far.push(&["--inplace"], &[&file], "pipe")
        .assert_failed(3, "is a FIFO");
    let here = far.near.at("pipe");
    fifo(&here);
    far.push(&[], &[&file], "x").assert_succeeded();
    far.pull(&[], &["x"], here.to_str().unwrap())
        .assert_failed(3, "is a FIFO");
    let tree = far.near.folder("tree");
    fs::write(tree.join("pipe"), "file").unwrap();
    far.push(&[], &[&tree], "tree").assert_succeeded();
    fs::remove_file(far.target.join("tree/pipe")).unwrap();
    fifo(&far.target.join("tree/pipe"));
    far.push(&[], &[&tree], "tree")
        .assert_failed(23, "is a FIFO");
    fs::remove_file(tree.join("pipe")).unwrap();
    let outcome = far.push(&["--delete", "--yes"], &[&tree], "tree");
    assert!(
        outcome.said("tree/pipe was not deleted: it is a FIFO"),
        "{outcome:?}"
    );
    // devices and sockets are kept like FIFOs
    let socket = far.target.join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    far.push(&[], &[&file], "socket")
        .assert_failed(3, "socket: it is a socket");
    let device = far.target.join("null");
    if is_root() {
        let mut mknod = Command::new("mknod");
        let mknod = mknod.arg(&device).args(["c", "1", "3"]).status();
        assert!(mknod.unwrap().success());
        far.push(&[], &[&file], "null")
            .assert_failed(3, "null: it is a device");
        far.push(&["--inplace"], &[&file], "null")
            .assert_failed(3, "is a device");
        assert!(at(&device).is_char_device());
    }
    assert!(at(&socket).is_socket());
    // a key without the right is refused; a key with it still needs the option
    far.push(&["--replace-special"], &[&file], "pipe")
        .assert_failed(3, "your key has no right to replace it");
    let mut rm = far.near.lighthaul(&["rm", "--pin", &far.pin, "--key"]);
    rm.arg(far.near.key()).arg(far.place("pipe"));
    let refused = far.near.run(rm);
    assert!(refused.said("pipe: it is a FIFO"), "{refused:?}");
    for path in [&there, &here, &far.target.join("tree/pipe")] {
        assert!(at(path).is_fifo(), "{path:?}");
    }
    allow(&far, &["--special"]);
    far.push(&[], &[&file], "pipe")
        .assert_failed(3, "use --replace-special to replace it");
    far.push(&["--replace-special"], &[&file], "pipe")
        .assert_succeeded();
    assert!(at(&there).is_file());
}

#[test]
fn links_to_special_files_are_refused_as_targets() {
    let far = Far::start("special-link", &["--root", "ROOT"]);
    let file = far.near.file("x", 100);
    let file = file.to_str().unwrap();
    let there = format!("lh://127.0.0.1:{}/null", far.port);
    let here = far.near.at("null");
    fs::write(far.target.join("x"), "x").unwrap();
    let source = format!("lh://127.0.0.1:{}/x", far.port);
    for link in [&far.target.join("null"), &here] {
        symlink("/dev/null", link).unwrap();
    }
    // the root of the daemon does not contain the device
    far.run(&[], &[file, &there])
        .assert_failed(3, "null: it is a link to a device");
    far.run(&["-n"], &[&source, here.to_str().unwrap()])
        .assert_failed(3, "null: it is a link to a device");
    far.run(&[], &[&source, here.to_str().unwrap()])
        .assert_failed(3, "use --replace-special");
    for link in [&far.target.join("null"), &here] {
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
    }
    far.run(&["--replace-special"], &[&source, here.to_str().unwrap()])
        .assert_succeeded();
    assert_eq!(fs::read(&here).unwrap(), b"x");
}

#[test]
fn revoked_right_ends_sessions_within_five_seconds() {
    for (name, narrowed, words) in [
        ("ro", &["--read-only"][..], "your key may only read there"),
        (
            "root",
            &["--root", "/nowhere"],
            "the operator of the daemon changed the root directory of your key",
        ),
        (
            "owners",
            &["--special"],
            "your right to give files to other users there was removed",
        ),
        (
            "special",
            &["--owners"],
            "your right to set special bits and attributes there was removed",
        ),
    ] {
        let far = Far::start(&format!("narrowed-{name}"), &[]);
        let file = far.near.file("x", 60 << 20);
        let place = far.place("x");
        let options = ["--json", "--rate", "20Mb/s"];
        let mut copy = Running::start(far.copy(&options, &[file.to_str().unwrap(), &place]));
        copy.prints("\"type\":\"progress\"");
        allow(&far, narrowed);
        let outcome = copy.finish().assert_failed(13, words);
        println!(
            "{name}: it ended {:?} after the right was taken",
            outcome.time
        );
        assert!(outcome.time < allowance(5), "{outcome:?}");
    }
}

#[test]
fn malformed_line_in_a_reloaded_list_is_logged_and_refuses_its_key() {
    let mut far = Far::start("spoiled", &[]);
    let listed = fs::read_to_string(far.near.allowed()).unwrap();
    fs::write(far.near.allowed(), listed.replace("tester", "tester rot=/")).unwrap();
    let line = far.daemon.says("line 1: ");
    assert!(line.contains("rot=/"), "{line}");
    let file = far.near.file("x", 10);
    far.push(&[], &[&file], "x")
        .assert_failed(13, "your key is not allowed there");
}

#[test]
fn serve_requires_root() {
    let far = Far::start("rootless", &[]);
    far.near
        .run(far.near.lighthaul(&["serve", "--listen", "127.0.0.1:0"]))
        .assert_failed(1, "--root DIR is required: the directory to serve");
}

#[test]
fn trust_replaces_a_key_only_with_replace() {
    let far = Far::start("trusted", &[]);
    let [first, second] = ["ab", "cd"].map(|digits| format!("sha256:{}", digits.repeat(32)));
    let known = far.near.at("config/lighthaul/known_hosts");
    let trust = |words: &[&str]| {
        far.near
            .run(far.near.lighthaul(&[&["trust"], words].concat()))
    };
    trust(&["host", &first]).assert_succeeded();
    trust(&["host", &first]).assert_succeeded();
    trust(&["host", &second]).assert_failed(13, "is known by");
    assert!(fs::read_to_string(&known).unwrap().contains(&first));
    let outcome = trust(&["--replace", "host", &second]).assert_succeeded();
    assert!(outcome.said("host had the key"), "{outcome:?}");
    assert_eq!(
        fs::read_to_string(&known).unwrap(),
        format!("{second} host\n")
    );
    // a malformed line does not make its host unknown
    let name = format!("127.0.0.1:{}", far.port);
    fs::write(&known, format!("sha256:12 {name}\n")).unwrap();
    let file = far.near.file("x", 10);
    let mut copy = far.near.cp(&["--key"]);
    copy.arg(far.near.key()).arg(&file).arg(far.place("x"));
    far.near.run(copy).assert_failed(13, "has a malformed key");
    assert!(far.names().is_empty());
}

#[test]
fn probe_works_without_plain_on_the_daemon() {
    let far = Far::start("probed", &[]);
    let host = format!("lh://127.0.0.1:{}/", far.port);
    let mut probe = far
        .near
        .lighthaul(&["probe", &host, "--what", "place", "--size", "1MiB"]);
    probe
        .args(["--rate", "100Mb/s", "--pin", &far.pin, "--key"])
        .arg(far.near.key());
    far.near.run(probe).assert_succeeded();
}
