//! IPv4 and IPv6, and hosts where one of them is broken.

use std::process::Command;

use crate::far::Far;
use crate::running::Running;
use crate::stage::Stage;
use lighthaul_testkit::allowance;

/// Copies a file by datagrams to the daemon of `far`, which is called `host`.
fn copy(far: &Far, host: &str) {
    let file = far.near.file("x", 100_000);
    let there = far.target.join("x");
    let place = format!("lh://{host}:{}{}", far.port, there.display());
    far.by_datagrams(|| {
        std::fs::remove_file(&there).ok();
        far.run(&[], &[file.to_str().unwrap(), &place])
    });
    assert!(std::fs::read(&there).unwrap() == std::fs::read(&file).unwrap());
}

#[test]
fn ipv6_only_daemon_is_reached() {
    let far = Far::start_at("v6", "[::1]:0", &[]);
    copy(&far, "[::1]");
}

#[test]
fn daemon_on_all_addresses_is_reached_over_both_families() {
    let far = Far::start_at("dual", "[::]:0", &[]);
    for host in ["127.0.0.1", "[::1]"] {
        copy(&far, host);
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
