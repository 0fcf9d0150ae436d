//! A far side of which only the port of ssh is open: a real ssh on hosts of a lab, with a firewall between them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lighthaul_testkit::{allowance, lacks_tool};
use serde_json::Value;

use crate::far::PROGRAM;
use crate::running::{Outcome, Running};
use crate::scratch::{dress, tree};
use crate::sshd::{PASSWORD, PORT, Setup, Sshd, TALKATIVE_SHELLS, configure, listen};
use crate::stage::Stage;

/// A stage on whose host `b` only the port of ssh is open to others.
fn closed_stage(test: &str, properties: &str) -> Option<Stage> {
    let stage = Stage::pair(test, properties)?;
    close(&stage, "");
    Some(stage)
}

/// Closes all ports of `b` to other hosts, but that of ssh and those in `open`.
fn close(stage: &Stage, open: &str) {
    stage.block(
        "b",
        &format!("iifname != \"lo\" tcp dport != {{ {PORT} {open} }}"),
    );
    stage.block(
        "b",
        &format!("iifname != \"lo\" udp dport != {{ 1 {open} }}"),
    );
}

/// Makes files to copy.
fn source(ssh: &Sshd) -> String {
    ssh.near.folder("source");
    for nth in 0..10_u64 {
        let file = ssh.near.file(&format!("source/{nth}"), 100 + nth * 300_000);
        dress(&file, 0o640, 1_600_000_000 + nth);
    }
    ssh.near.at("source").to_str().unwrap().to_owned()
}

/// Copies to the far side and back, and compares.
fn assert_copies(ssh: &Sshd, command: &str) -> [Outcome; 2] {
    let (local, there) = (source(ssh), ssh.place("tree"));
    let back = ssh.near.at("back");
    let options = ["--retries", "0", "--json"];
    let copy = |paths: &[&str]| {
        ssh.near
            .run(ssh.copy(command, &options, paths))
            .assert_succeeded()
    };
    let pushed = copy(&[&local, &there]);
    assert!(tree(&ssh.far("tree")) == tree(&ssh.near.at("source")));
    let pulled = copy(&[&there, back.to_str().unwrap()]);
    assert!(tree(&back) == tree(&ssh.near.at("source")));
    [pushed, pulled]
}

/// Returns the user's list of hosts of which only the port of ssh is open.
fn closed_hosts(ssh: &Sshd) -> String {
    fs::read_to_string(ssh.near.at("cache/lighthaul/ssh_hosts")).unwrap_or_default()
}

/// Insists that the data went through ssh, and returns the number of connections.
fn connections(outcome: &Outcome) -> u32 {
    let choice = outcome.event("choice");
    let why = choice["why"].as_str().unwrap();
    let count = why.strip_prefix("ports of far are closed; data goes through ssh (");
    let count = count.unwrap_or_else(|| panic!("{why}"));
    count.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn data_goes_through_ssh_if_only_the_ssh_port_is_open() {
    let name = "data_goes_through_ssh_if_only_the_ssh_port_is_open";
    let Some(stage) = closed_stage(name, "rtt = \"10ms\"") else {
        return;
    };
    let setup = Setup {
        config: "AllowTcpForwarding no\nAllowStreamLocalForwarding no",
        ..Setup::default()
    };
    let Some(ssh) = Sshd::start_on("ssh-only", stage, setup) else {
        return;
    };
    for outcome in assert_copies(&ssh, &ssh.ssh()) {
        assert!(connections(&outcome) <= 16, "{outcome:?}");
        assert!(outcome.time < allowance(20), "{outcome:?}");
    }
    // other commands take the same way
    let mut list = ssh
        .near
        .lighthaul(&["ls", "-e", &ssh.ssh(), "--remote", PROGRAM]);
    list.arg(ssh.place("tree"));
    let listed = ssh.near.run(list).assert_succeeded();
    assert_eq!(listed.out.len(), 10, "{listed:?}");
    ssh.assert_logins("publickey", |logins| logins > 4);
}

/// A password, a key and a password, and a key and a question of PAM.
#[test]
fn password_or_second_factor_is_asked_once_if_each_login_needs_it() {
    let name = "password_or_second_factor_is_asked_once_if_each_login_needs_it";
    if lacks_tool(name, "sshpass") {
        return;
    }
    let password = "PasswordAuthentication yes\nPermitRootLogin yes\n";
    let question = "KbdInteractiveAuthentication yes\nUsePAM yes\nPermitRootLogin yes\n";
    for (method, factors, config) in [
        ("password", "password", password),
        ("password", "publickey,password", password),
        (
            "keyboard-interactive/pam",
            "publickey,keyboard-interactive",
            question,
        ),
    ] {
        let Some(stage) = closed_stage(name, "rtt = \"10ms\"") else {
            return;
        };
        let config = format!("{config}AuthenticationMethods {factors}");
        let setup = Setup {
            config: &config,
            ..Setup::default()
        };
        let Some(ssh) = Sshd::start_on("ssh-password", stage, setup) else {
            return;
        };
        let command = format!("sshpass -p {PASSWORD} {}", ssh.ssh());
        for outcome in assert_copies(&ssh, &command) {
            let count = connections(&outcome);
            assert!(count <= 8, "{factors}: {outcome:?}");
        }
        // further logins would ask again
        assert_eq!(closed_hosts(&ssh), "");
        // one for each copy
        ssh.assert_logins(method, |logins| logins == 2);
    }
}

#[test]
fn shared_ssh_connections_of_the_user_are_used() {
    let name = "shared_ssh_connections_of_the_user_are_used";
    let Some(stage) = closed_stage(name, "rtt = \"10ms\"") else {
        return;
    };
    let Some(ssh) = Sshd::start_on("ssh-shared", stage, Setup::default()) else {
        return;
    };
    let socket = ssh.near.at("s");
    let command = format!(
        "{} -o ControlMaster=auto -o ControlPath={}",
        ssh.ssh(),
        socket.display()
    );
    assert_copies(&ssh, &command);
    // the socket goes with the process that made it
    assert!(!socket.exists());
}

/// A login that the user shares may end at any time, for example by its own timeout.
#[test]
fn shared_login_that_ends_in_the_start_up_is_replaced_once() {
    let name = "shared_login_that_ends_in_the_start_up_is_replaced_once";
    let Some(stage) = closed_stage(name, "rtt = \"10ms\"") else {
        return;
    };
    let Some(ssh) = Sshd::start_on("ssh-master", stage, Setup::default()) else {
        return;
    };
    // it opens the login, and ends it when data is about to go through it
    let script = format!(
        "#!/bin/sh\nS='{} -o ControlPath={}'\ncd '{}'\n\
         [ -e begun ] || {{ touch begun; $S -M -N -f far >/dev/null 2>&1 </dev/null; }}\n\
         case \"$*\" in *forward*) [ -e ended ] || {{ touch ended; $S -O exit far 2>/dev/null; }};; esac\n\
         exec $S \"$@\"\n",
        ssh.ssh(),
        ssh.near.at("s").display(),
        ssh.near.folder("state").display(),
    );
    let command = ssh.near.at("shared-ssh");
    fs::write(&command, script).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    let file = ssh.near.file("x", 100_000);
    let paths = [file.to_str().unwrap(), &ssh.place("x")];
    let copy = ssh.copy(command.to_str().unwrap(), &[], &paths);
    let outcome = ssh.near.run(copy).assert_succeeded();
    let words = "the ssh connection to far was lost: ";
    assert!(
        outcome.said(words) && outcome.said("trying once more"),
        "{outcome:?}"
    );
    assert!(!outcome.said("127.0.0.1"), "{outcome:?}");
    assert!(fs::read(ssh.far("x")).unwrap() == fs::read(&file).unwrap());
}

#[test]
fn jump_hosts_are_followed() {
    let name = "jump_hosts_are_followed";
    let Some(stage) = closed_stage(name, "rtt = \"10ms\"") else {
        return;
    };
    let Some(ssh) = Sshd::start_on("ssh-jump", stage, Setup::default()) else {
        return;
    };
    let gate = listen(&ssh.near, ("a", "10.77.0.1", PORT + 1), Setup::default());
    let gate = gate.unwrap();
    configure(&ssh.near, "gate", ("10.77.0.1", PORT + 1));
    let config = ssh.near.at("ssh_config");
    let text = fs::read_to_string(&config).unwrap();
    let jump = "Host far\n ProxyJump gate\n";
    fs::write(&config, format!("{jump}{text}")).unwrap();
    for outcome in assert_copies(&ssh, &ssh.ssh()) {
        connections(&outcome);
    }
    let doctor = diagnosed(&ssh, &[]);
    let text = doctor.events()[0]["text"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("far is 10.77.0.2 port 2222, through gate,"),
        "{text}"
    );
    drop(gate);
}

/// Has the doctor look at the far side.
fn diagnosed(ssh: &Sshd, options: &[&str]) -> Outcome {
    let words = [
        "doctor",
        "--json",
        "far",
        "-e",
        &ssh.ssh(),
        "--remote",
        PROGRAM,
    ];
    let mut doctor = ssh.near.lighthaul(&words);
    doctor.args(options);
    ssh.near.run(doctor)
}

/// The finding of the doctor about `name`.
fn finding(outcome: &Outcome, name: &str) -> Value {
    let mut events = outcome.events().into_iter();
    let found = events.find(|event| event["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {outcome:?}"))
}

#[test]
fn open_ports_of_a_range_are_used_directly() {
    let name = "open_ports_of_a_range_are_used_directly";
    let Some(stage) = Stage::pair(name, "rtt = \"10ms\"") else {
        return;
    };
    close(&stage, ", 5000-5003");
    let Some(ssh) = Sshd::start_on("ssh-range", stage, Setup::default()) else {
        return;
    };
    let file = ssh.near.file("x", 3_000_000);
    let local = file.to_str().unwrap();
    let copy = |range: &str, name: &str| {
        let options = ["--json", "--port-range", range];
        let copy = ssh.copy(&ssh.ssh(), &options, &[local, &ssh.place(name)]);
        ssh.near.run(copy)
    };
    // a busy host may answer through ssh first
    let is_direct = |range: &str, nth: usize| {
        let outcome = copy(range, &format!("{range}-{nth}")).assert_succeeded();
        outcome.event("start")["protocol"] == "rbudp"
    };
    for range in ["5000-5003", "5000:5003", "5002"] {
        assert!((0..20).any(|nth| is_direct(range, nth)), "{range}");
    }
    assert_eq!(closed_hosts(&ssh), "");
    // the second copy knows that the ports were closed, and begins its logins early
    for name in ["other", "again"] {
        let outcome = copy("6000-6001", name).assert_succeeded();
        connections(&outcome);
        let known = closed_hosts(&ssh);
        assert!(known.starts_with("far 10.77.0.2 2222 named "), "{known}");
    }
    // until one finds them open
    assert!((20..40).any(|nth| is_direct("5000-5003", nth)));
    assert_eq!(closed_hosts(&ssh), "");
    copy("5-4", "x").assert_failed_to_parse();
    // the doctor names the way of the data
    let outcome = diagnosed(&ssh, &["--port-range", "5000-5003"]).assert_succeeded();
    for step in ["name", "ssh", "tcp", "version", "udp"] {
        assert_eq!(finding(&outcome, step)["outcome"], "ok", "{outcome:?}");
    }
    let outcome = diagnosed(&ssh, &[]).assert_succeeded();
    let tcp = finding(&outcome, "tcp");
    assert_eq!(tcp["outcome"], "warn", "{outcome:?}");
    assert!(
        tcp["text"]
            .as_str()
            .unwrap()
            .ends_with("data goes through ssh"),
        "{tcp}"
    );
    assert!(
        tcp["advice"]
            .as_str()
            .unwrap()
            .contains("--port-range FROM-TO"),
        "{tcp}"
    );
}

#[test]
fn output_of_login_shells_is_tolerated() {
    let name = "output_of_login_shells_is_tolerated";
    for (shell, file, text) in TALKATIVE_SHELLS
        .into_iter()
        .chain([("/bin/sh", ".profile", "")])
    {
        if lacks_tool(name, shell) {
            continue;
        }
        let Some(stage) = closed_stage(name, "rtt = \"4ms\"") else {
            return;
        };
        let banner = std::env::temp_dir().join(format!("banner-{}", std::process::id()));
        fs::write(&banner, "this is a private host\n".repeat(20)).unwrap();
        let config = format!("Banner {}", banner.display());
        let setup = Setup {
            config: &config,
            shell,
            cache: "",
        };
        let Some(ssh) = Sshd::start_on("ssh-shell", stage, setup) else {
            return;
        };
        let rc = ssh.near.folder("home").join(file);
        fs::create_dir_all(rc.parent().unwrap()).unwrap();
        fs::write(&rc, format!("{text}\n")).unwrap();
        for outcome in assert_copies(&ssh, &ssh.ssh()) {
            connections(&outcome);
            // it is printed by the first login alone
            let banners = outcome
                .err
                .iter()
                .filter(|line| line.contains("private host"));
            assert_eq!(banners.count(), 20, "{shell}: {outcome:?}");
        }
        fs::remove_file(&banner).ok();
    }
}

/// Returns the numbers of the ssh processes below `parent`, oldest first.
fn ssh_processes(parent: u32) -> Vec<u32> {
    let mut found = started_below(parent);
    // numbers of processes begin again at their maximum
    found.sort_unstable();
    found.into_iter().map(|(_, number)| number).collect()
}

/// Returns the ssh processes below `parent`: start in ticks, and number.
fn started_below(parent: u32) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{parent}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let number = child.parse().unwrap();
            found.extend(start_of_ssh(number).map(|start| (start, number)));
            found.extend(started_below(number));
        }
    }
    found
}

/// Returns the start of a process in ticks, if it is ssh.
fn start_of_ssh(number: u32) -> Option<u64> {
    // NUMBER (NAME) STATE PARENT, and 17 others before the start
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let (name, rest) = stat.split_once(") ")?;
    let start = rest.split(' ').nth(19)?;
    name.ends_with("(ssh").then(|| start.parse().unwrap())
}

#[test]
fn copy_resumes_by_itself_if_an_ssh_process_is_killed() {
    let name = "copy_resumes_by_itself_if_an_ssh_process_is_killed";
    // the first process is the login that started the daemon; the others carry data
    for is_first in [true, false] {
        let Some(stage) = closed_stage(name, "rtt = \"10ms\"\nrate = \"60Mb/s\"") else {
            return;
        };
        let Some(ssh) = Sshd::start_on("ssh-killed", stage, Setup::default()) else {
            return;
        };
        let file = ssh.near.file("x", 12_000_000);
        let paths = [file.to_str().unwrap(), &ssh.place("x")];
        let mut copy = Running::start(ssh.copy(&ssh.ssh(), &["--json"], &paths));
        copy.prints("\"start\"");
        copy.prints("\"progress\"");
        let found = ssh_processes(copy.id());
        assert!(found.len() > 3, "{found:?}");
        let (first, others) = found.split_at(1);
        let dying = if is_first { first } else { others };
        let mut kill = std::process::Command::new("kill");
        kill.arg("-9").args(dying.iter().map(u32::to_string));
        // one of them may have ended by itself
        kill.status().unwrap();
        let outcome = copy.finish().assert_succeeded();
        assert!(outcome.said("retrying in 1 s"), "{outcome:?}");
        assert!(fs::read(ssh.far("x")).unwrap() == fs::read(&file).unwrap());
    }
}

#[test]
fn error_names_the_remedies_if_data_cannot_go_through_ssh() {
    let name = "error_names_the_remedies_if_data_cannot_go_through_ssh";
    let Some(stage) = closed_stage(name, "rtt = \"4ms\"") else {
        return;
    };
    let Some(ssh) = Sshd::start_on("ssh-nowhere", stage, Setup::default()) else {
        return;
    };
    // a program that knows nothing of the way through ssh
    let old = ssh.near.at("old");
    fs::write(
        &old,
        format!("#!/bin/sh\n[ $1 = forward ] && exit 1\nexec {PROGRAM} \"$@\"\n"),
    )
    .unwrap();
    fs::set_permissions(&old, PermissionsExt::from_mode(0o755)).unwrap();
    let file = ssh.near.file("x", 10);
    let mut copy = ssh.near.cp(&["--retries", "0", "-e", &ssh.ssh()]);
    copy.arg("--remote")
        .arg(&old)
        .arg(&file)
        .arg(ssh.place("x"));
    let outcome = ssh
        .near
        .run(copy)
        .assert_failed(10, "the data cannot get to far");
    for words in ["--port-range FROM-TO", "firewall", "lighthaul serve"] {
        assert!(outcome.said(words), "{words}: {outcome:?}");
    }
}
