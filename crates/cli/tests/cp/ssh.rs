//! Remote side that is started by ssh; here a script stands in for ssh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::far::{Near, PROGRAM};
use crate::running::{Outcome, becomes_true};
use crate::scratch::{look, names};
use lighthaul_testkit::allowance;

/// A client whose ssh is a script: `body` runs with the words after the host.
pub(crate) fn near(name: &str, body: &str) -> Near {
    let near = Near::new(name, None);
    let home = near.folder("home");
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1\" = -o ] && shift 2\n\
         if [ \"$1\" = -G ]; then echo user guest; echo hostname 127.0.0.1; exit 0; fi\n\
         echo \"$1\" > '{home}/../called'; shift\n\
         cd '{home}'\n[ \"$1\" = -- ] && shift\n{body}\n",
        home = home.display(),
    );
    fs::write(near.at("ssh"), script).unwrap();
    fs::set_permissions(near.at("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    near
}

fn cp(near: &Near, options: &[&str], paths: &[&str]) -> Outcome {
    near.run(copy(near, options, paths))
}

fn copy(near: &Near, options: &[&str], paths: &[&str]) -> Command {
    let mut copy = near.cp(options);
    copy.arg("-e")
        .arg(near.at("ssh"))
        .args(["--remote", PROGRAM])
        .args(paths);
    copy
}

#[test]
fn copies_over_ssh_work_in_both_directions() {
    let near = near("ssh", "echo welcome to this host; exec \"$@\"");
    let file = near.file("x", 300_000);
    let local = file.to_str().unwrap();
    // relative paths start from the remote home directory
    let outcome = cp(&near, &[], &[local, "me@host:y"]).assert_succeeded();
    assert!(outcome.said("verified"), "{outcome:?}");
    assert!(look(&near.at("home/y")) == look(&file));
    assert_eq!(fs::read_to_string(near.at("called")).unwrap(), "me@host\n");
    cp(&near, &[], &[local, "host:"]).assert_succeeded();
    assert!(look(&near.at("home/x")) == look(&file));
    let absolute = format!("host:{}", near.at("z").display());
    cp(&near, &["--plain"], &[local, &absolute]).assert_succeeded();
    assert!(look(&near.at("z")) == look(&file));
    let back = near.at("back");
    cp(
        &near,
        &[],
        &["host:y", "host:x", &format!("{}/", back.display())],
    )
    .assert_succeeded();
    assert_eq!(names(&back), ["x", "y"]);
    // patterns are expanded over there
    let some = near.at("some");
    cp(&near, &[], &["host:[xy]", some.to_str().unwrap()]).assert_succeeded();
    assert_eq!(names(&some), ["x", "y"]);
    // ssh takes options of its own
    let mut with_options = near.cp(&["-e", &format!("{} -o Port=7", near.at("ssh").display())]);
    with_options.args(["--remote", PROGRAM, local, "host:w"]);
    near.run(with_options).assert_succeeded();
    assert_eq!(names(&near.at("home")), ["w", "x", "y"]);
}

#[test]
fn file_commands_work_over_ssh() {
    let near = near("ssh-files", "exec \"$@\"");
    let run = |words: &[&str]| {
        let mut command = near.lighthaul(words);
        command.arg("-e").arg(near.at("ssh"));
        command.args(["--remote", PROGRAM]);
        near.run(command)
    };
    run(&["mkdir", "-p", "me@host:a/b"]).assert_succeeded();
    fs::write(near.at("home/a/x"), "x").unwrap();
    assert_eq!(run(&["ls", "me@host:a"]).assert_succeeded().out, ["b", "x"]);
    assert_eq!(run(&["ls", "host:"]).assert_succeeded().out, ["a"]);
    run(&["stat", "host:missing"]).assert_failed(3, "cannot read the metadata of host:missing");
    let outcome = run(&["rm", "-r", "host:a", "host:missing"]);
    outcome.assert_failed(23, "cannot remove host:missing");
    assert!(names(&near.at("home")).is_empty());
}

#[test]
fn remote_failures_over_ssh_are_reported_at_once() {
    let near = near("ssh-fails", "exec \"$@\"");
    let file = near.file("x", 10);
    let local = file.to_str().unwrap();
    let there = near.at("there");
    let there = there.to_str().unwrap();
    for (paths, code, words) in [
        (
            [local, "host:no/such/folder"],
            3,
            "cannot open the target directory",
        ),
        ([local, "host:/proc/x"], 3, "/proc"),
        (["host:missing", there], 3, "cannot open"),
    ] {
        let outcome = cp(&near, &[], &paths).assert_failed(code, words);
        assert!(outcome.time < allowance(8), "{outcome:?}");
    }
    assert!(names(&near.at("home")).is_empty());
}

#[test]
fn unreachable_host_and_missing_program_are_distinguished() {
    for (name, body, code, words) in [
        ("ssh-127", "exit 127", 3, "is not installed on host"),
        ("ssh-255", "exit 255", 10, "ssh could not reach host"),
        ("ssh-silent", "exit 0", 2, "did not answer"),
        ("ssh-talks", "echo hello; exit 1", 2, "did not answer"),
    ] {
        let near = near(name, body);
        let file = near.file("x", 10);
        let outcome = cp(&near, &[], &[file.to_str().unwrap(), "host:x"]);
        let outcome = outcome.assert_failed(code, words);
        if code != 3 {
            // the hint repeats the command of the user
            let command = format!("see what `{} host", near.at("ssh").display());
            assert!(outcome.said(&command), "{outcome:?}");
        }
    }
    let near = near("ssh-missing", "");
    let file = near.file("x", 10);
    let mut copy = near.cp(&["-e", "/no/such/ssh"]);
    copy.arg(&file).arg("host:x");
    near.run(copy)
        .assert_failed(10, "cannot start /no/such/ssh");
}

#[test]
fn silent_remote_program_ends_the_copy_after_the_stall_timeout() {
    let body = "PATH=\"$PWD/../bin:$PATH\"; export PATH; \
                case $1 in sh*) exec sh -c \"$*\";; esac; exec \"$@\"";
    let near = near("ssh-hangs", body);
    let file = near.file("x", 10);
    near.folder("bin");
    let hanging = near.at("bin/lighthaul");
    let pid = near.at("pid");
    let script = format!("#!/bin/sh\necho $$ > {}\nexec sleep 1000\n", pid.display());
    fs::write(&hanging, script).unwrap();
    fs::set_permissions(&hanging, fs::Permissions::from_mode(0o755)).unwrap();
    // the installed program is found, or the user names it
    for named in [&[][..], &["--remote", hanging.to_str().unwrap()]] {
        // a terminal could have a question for the user
        let copy = near.cp(&[]);
        let mut command = Command::new("setsid");
        command.arg("-w").arg(copy.get_program());
        command.args(copy.get_args());
        for (name, value) in copy.get_envs() {
            command.env(name, value.unwrap());
        }
        command.args(named).arg("--stall-timeout=1s").arg("-e");
        command.arg(near.at("ssh")).arg(&file).arg("host:x");
        let outcome = near.run(command);
        let words = format!(
            "on host did not answer within 1 s; see whether `{} host ",
            near.at("ssh").display()
        );
        let outcome = outcome.assert_failed(30, &words);
        assert!(outcome.time < allowance(12), "{outcome:?}");
        // a busy host may not have started it
        let Ok(number) = fs::read_to_string(&pid) else {
            continue;
        };
        becomes_true("the far program has ended", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", number.trim()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        });
        fs::remove_file(&pid).unwrap();
    }
}

#[test]
fn wrong_server_on_the_port_is_detected() {
    let key = format!("sha256:{}", "cd".repeat(32));
    let body = format!(
        "case \"$*\" in *forward*) exec \"$@\";; esac; exec \"$@\" | while read a b c; do echo $a $b {key}; done"
    );
    let near = near("ssh-other", &body);
    let file = near.file("x", 10);
    let outcome = cp(&near, &[], &[file.to_str().unwrap(), "host:x"]);
    outcome.assert_failed(13, "another host answered in its place");
    assert!(names(&near.at("home")).is_empty());
}

#[test]
fn remote_port_range_is_used_unless_the_client_gives_a_range() {
    let near = near("ssh-ports", "exec \"$@\"");
    let file = near.file("x", 10);
    let local = file.to_str().unwrap();
    let taken = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let settings = format!("[serve]\nport-range = \"{port}\"\n");
    fs::create_dir_all(near.at("config/lighthaul")).unwrap();
    fs::write(near.at("config/lighthaul/config.toml"), settings).unwrap();
    let outcome = cp(&near, &[], &[local, "host:y"]).assert_failed(2, "did not answer");
    let words = format!("no port of {port} is free");
    assert!(outcome.said(&words), "{outcome:?}");
    // a few ports of a long range are free
    let options = ["--port-range", "20000-60000"];
    cp(&near, &options, &[local, "host:y"]).assert_succeeded();
    assert_eq!(names(&near.at("home")), ["y"]);
}
