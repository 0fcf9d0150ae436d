//! First copies to hosts without the program, over a real ssh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lighthaul_testkit::lacks_tool;

use crate::far::{PROGRAM, small_program};
use crate::running::{Outcome, Running};
use crate::scratch::{names, tree};
use crate::sshd::{PASSWORD, PORT, Setup, Sshd, TALKATIVE_SHELLS};
use crate::stage::Stage;

/// Starts a far side without the program.
fn bare(test: &str, setup: Setup<'_>) -> Option<Sshd> {
    let stage = Stage::pair(test, "rtt = \"2ms\"\nrate = \"10Gb/s\"")?;
    Sshd::start_on(&test[..12], stage, setup)
}

/// Returns a command with `words` that uses the ssh command `by`.
fn command(ssh: &Sshd, by: &str, words: &[&str]) -> Command {
    let mut command = ssh.near.small_lighthaul(words);
    command.args(["-e", by]);
    command
}

/// Copies a tree to the far side with `options`.
fn copy(ssh: &Sshd, by: &str, options: &[&str]) -> Outcome {
    let source = ssh.near.folder("source");
    ssh.near.file("source/x", 300_000);
    let mut copy = command(ssh, by, &["cp", "--retries", "0"]);
    copy.args(options)
        .arg(source.join(""))
        .arg(ssh.place("tree"));
    ssh.near.run(copy)
}

/// Copies a tree with `--install`, which must succeed.
fn assert_installs(ssh: &Sshd, by: &str) -> Outcome {
    let outcome = copy(ssh, by, &["--install"]).assert_succeeded();
    assert!(
        outcome.said("putting a copy of this program ("),
        "{outcome:?}"
    );
    assert!(outcome.said("verified"), "{outcome:?}");
    assert!(tree(&ssh.far("tree")) == tree(&ssh.near.at("source")));
    assert_eq!(copies(ssh), 1);
    outcome
}

/// Returns the number of files below the cache directory on the far side.
fn copies(ssh: &Sshd) -> usize {
    let cache = ssh.near.folder("home").join(".cache/lighthaul");
    let inner = |folder: String| names(&cache.join(folder)).len();
    if cache.exists() {
        names(&cache).into_iter().map(inner).sum()
    } else {
        0
    }
}

/// Writes a script that stands in for a program on the far side.
fn script(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns a directory for scripts on the far side, and the line of the configuration that puts it into the path.
fn tools(test: &str) -> (std::path::PathBuf, String) {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    let line = format!("SetEnv PATH={}:/usr/bin:/bin", folder.display());
    (folder, line)
}

#[test]
fn program_is_installed_for_every_login_shell_and_found_again() {
    let name = "program_is_installed_for_every_login_shell_and_found_again";
    for (shell, file, text) in TALKATIVE_SHELLS {
        if lacks_tool(name, shell) {
            continue;
        }
        let setup = Setup {
            shell,
            ..Setup::default()
        };
        let Some(ssh) = bare(name, setup) else { return };
        let rc = ssh.near.folder("home").join(file);
        fs::create_dir_all(rc.parent().unwrap()).unwrap();
        fs::write(&rc, format!("{text}\n")).unwrap();

        let refused = copy(&ssh, &ssh.ssh(), &[]);
        let refused = refused.assert_failed(3, "lighthaul is not installed on far; add --install");
        assert!(refused.said("--remote"), "{shell}: {refused:?}");
        assert_eq!(copies(&ssh), 0);
        assert_installs(&ssh, &ssh.ssh());
        let mut list = command(&ssh, &ssh.ssh(), &["ls"]);
        list.arg(ssh.place("tree"));
        let listed = ssh.near.run(list).assert_succeeded();
        assert_eq!(listed.out, ["x"], "{shell}: {listed:?}");
        assert!(!listed.said("copy of this program"), "{shell}: {listed:?}");
    }
}

#[test]
fn installed_copy_carries_data_through_ssh() {
    let name = "installed_copy_carries_data_through_ssh";
    let Some(ssh) = bare(name, Setup::default()) else {
        return;
    };
    let stage = ssh.near.stage.as_ref().unwrap();
    stage.block("b", &format!("iifname != \"lo\" tcp dport != {PORT}"));
    stage.block("b", "iifname != \"lo\" udp dport != 1");
    let outcome = assert_installs(&ssh, &ssh.ssh());
    assert!(outcome.said("data goes through ssh"), "{outcome:?}");
}

#[test]
fn password_is_asked_once_for_an_installation() {
    let name = "password_is_asked_once_for_an_installation";
    if lacks_tool(name, "sshpass") {
        return;
    }
    let setup = Setup {
        config: "PasswordAuthentication yes\nPubkeyAuthentication no\nPermitRootLogin yes",
        ..Setup::default()
    };
    let Some(ssh) = bare(name, setup) else { return };
    // without a password or a terminal to ask for one
    let refused = copy(
        &ssh,
        &format!("{} -o BatchMode=yes", ssh.ssh()),
        &["--install"],
    );
    let refused = refused.assert_failed(10, "ssh could not reach far or log in there");
    assert!(refused.said("BatchMode=yes far` says"), "{refused:?}");
    assert_installs(&ssh, &format!("sshpass -p {PASSWORD} {}", ssh.ssh()));
    ssh.assert_logins("password", |count| count == 1);
}

#[test]
fn answer_on_a_terminal_decides_about_the_installation() {
    let name = "answer_on_a_terminal_decides_about_the_installation";
    if lacks_tool(name, "script") {
        return;
    }
    let Some(ssh) = bare(name, Setup::default()) else {
        return;
    };
    let file = ssh.near.file("one", 1000);
    for (answer, status) in [("n", 3), ("y", 0), ("none is read", 0)] {
        let line = format!(
            "{} cp --retries 0 -e '{}' {} {}",
            small_program(),
            ssh.ssh(),
            file.display(),
            ssh.place("one")
        );
        let stage = ssh.near.stage.as_ref().unwrap();
        let mut shell = stage.lab.command("a", "sh").unwrap();
        let typed = "printf '%s\\n' \"$1\" | script -qec \"$2\" /dev/null";
        shell.env("XDG_CONFIG_HOME", ssh.near.at("config"));
        shell.args(["-c", typed, "sh", answer, &line]);
        let outcome = Running::start(shell).finish();
        assert_eq!(outcome.code, Some(status), "{answer}: {outcome:?}");
        let asked = outcome
            .out
            .iter()
            .any(|line| line.contains("and run it? [y/N]"));
        assert_eq!(asked, answer.len() == 1, "{outcome:?}");
        assert_eq!(copies(&ssh), usize::from(answer != "n"));
    }
}

#[test]
fn directory_without_space_or_execute_permission_is_named() {
    let name = "directory_without_space_or_execute_permission_is_named";
    for (cache, status, words) in [
        ("size=1m", 11, "No space left on device"),
        ("ro", 11, "Read-only file system"),
        (
            "noexec",
            3,
            "executes no programs (is its file system mounted with noexec?)",
        ),
    ] {
        let setup = Setup {
            cache,
            ..Setup::default()
        };
        let Some(ssh) = bare(name, setup) else { return };
        let refused = copy(&ssh, &ssh.ssh(), &["--install"]).assert_failed(status, words);
        assert!(refused.said("XDG_CACHE_HOME"), "{cache}: {refused:?}");
        assert!(refused.said("on far"), "{cache}: {refused:?}");
        assert!(names(&ssh.near.folder("far")).is_empty());
    }
}

#[test]
fn host_of_another_architecture_is_refused() {
    let name = "host_of_another_architecture_is_refused";
    let (folder, config) = tools("architecture");
    let uname = "case $1 in -s) echo Linux;; *) echo riscv64;; esac";
    script(&folder, "uname", uname);
    let setup = Setup {
        config: &config,
        ..Setup::default()
    };
    let Some(ssh) = bare(name, setup) else { return };
    let refused = copy(&ssh, &ssh.ssh(), &["--install"]);
    let refused = refused.assert_failed(3, "cannot run a copy of this program");
    for words in ["Linux on riscv64", "install lighthaul for riscv64 there"] {
        assert!(refused.said(words), "{refused:?}");
    }
    assert_eq!(copies(&ssh), 0);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn copy_that_needs_another_libc_is_refused() {
    let name = "copy_that_needs_another_libc_is_refused";
    let (folder, config) = tools("libc");
    // what arrives cannot run there
    let head = "n=$(/usr/bin/head \"$@\" | wc -c); { echo '#!/bin/sh'; echo 'echo version GLIBC_9.99 not found; exit 1'; \
                yes '#'; } | /usr/bin/head -c $n";
    script(&folder, "head", head);
    let setup = Setup {
        config: &config,
        ..Setup::default()
    };
    let Some(ssh) = bare(name, setup) else { return };
    let refused = copy(&ssh, &ssh.ssh(), &["--install"]);
    let refused = refused.assert_failed(3, "the copy of lighthaul does not run on far");
    for words in ["GLIBC_9.99 not found", "static program"] {
        assert!(refused.said(words), "{refused:?}");
    }
    assert_eq!(copies(&ssh), 0);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn installed_program_of_an_older_version_is_refused_or_skipped() {
    let name = "installed_program_of_an_older_version_is_refused_or_skipped";
    let (folder, config) = tools("older");
    script(&folder, "lighthaul", "echo lighthaul 0.0.9");
    let setup = Setup {
        config: &config,
        ..Setup::default()
    };
    let Some(ssh) = bare(name, setup) else { return };
    let refused = copy(&ssh, &ssh.ssh(), &[]);
    let refused = refused.assert_failed(2, "lighthaul 0.0.9 on far has another protocol version");
    assert!(refused.said("add --install"), "{refused:?}");
    let doctor = command(&ssh, &ssh.ssh(), &["doctor", "far:"]);
    let told = ssh.near.run(doctor).out.concat();
    assert!(
        told.contains("lighthaul 0.0.9 on far has another"),
        "{told}"
    );
    assert_installs(&ssh, &ssh.ssh());
    // the copy is found before the question
    copy(&ssh, &ssh.ssh(), &[]).assert_succeeded();
    // an installed program of this version comes first
    script(&folder, "lighthaul", &format!("exec {PROGRAM} \"$@\""));
    fs::remove_dir_all(ssh.near.at("home/.cache/lighthaul")).unwrap();
    copy(&ssh, &ssh.ssh(), &["--install"]).assert_succeeded();
    assert_eq!(copies(&ssh), 0);
    fs::remove_dir_all(folder).unwrap();
}
