//! IPv4 and IPv6, and hosts where one of them is broken.

use std::process::Command;

use crate::far::Far;
use crate::running::Running;
use crate::stage::Stage;
use lighthaul_testkit::allowance;

/// Copies a file to the daemon of `far`, which is called `host`.
fn copy(far: &Far, host: &str) -> Vec<String> {
    let file = far.near.file("x", 100_000);
    let place = format!("lh://{host}:{}{}/x", far.port, far.target.display());
    let outcome = far
        .run(&[], &[file.to_str().unwrap(), &place])
        .assert_succeeded();
    let copied = std::fs::read(far.target.join("x")).unwrap();
    assert!(copied == std::fs::read(&file).unwrap());
    std::fs::remove_file(far.target.join("x")).unwrap();
    outcome.err
}

#[test]
fn ipv6_only_daemon_is_reached() {
    let far = Far::start_at("v6", "[::1]:0", &[]);
    let err = copy(&far, "[::1]");
    assert!(
        !err.iter().any(|line| line.contains("TCP carries")),
        "{err:?}"
    );
}

#[test]
fn daemon_on_all_addresses_is_reached_over_both_families() {
    let far = Far::start_at("dual", "[::]:0", &[]);
    for host in ["127.0.0.1", "[::1]"] {
        let err = copy(&far, host);
        assert!(
            !err.iter().any(|line| line.contains("TCP carries")),
            "{host}: {err:?}"
        );
    }
}

#[test]
fn silent_first_address_delays_only_briefly() {
    let name = "silent_first_address_delays_only_briefly";
    let Some(stage) = Stage::pair(name, "rate = \"100Mb/s\"\nrtt = \"10ms\"") else {
        return;
    };
    // packets to it are lost without an error
    let script = "echo 0 > /proc/sys/net/ipv6/conf/lo/disable_ipv6 && ip -6 addr add fd00::b/128 dev lo nodad";
    assert!(stage.lab.run("a", &["sh", "-c", script]).unwrap().success());
    stage.block("a", "ip6 daddr fd00::b");
    let far = Far::start_on("mute", stage);
    let file = far.near.file("x", 1000);
    let place = format!("lh://both:{}{}/x", far.port, far.target.display());
    let inner = far.copy(&[], &[file.to_str().unwrap(), &place]);
    let script =
        "echo \"fd00::b both\n$(getent ahostsv4 b | cut -d' ' -f1 | head -1) both\" >> /etc/hosts
                  test \"$(getent ahosts both | head -1 | cut -d' ' -f1)\" = fd00::b || exit 99
                  exec \"$@\"";
    let stage = far.near.stage.as_ref().unwrap();
    let mut shell: Command = stage.lab.command("a", "sh").unwrap();
    shell
        .args(["-c", script, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args());
    shell.env("XDG_CONFIG_HOME", far.near.at("config"));
    let outcome = Running::start(shell).finish().assert_succeeded();
    assert!(outcome.time < allowance(5), "{outcome:?}");
    assert_eq!(far.names(), ["x"]);
}
