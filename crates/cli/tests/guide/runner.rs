//! Execution of a page: its blocks in order, each on its host.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_testkit::{Turn, lacks, lacks_tool};

use crate::host::Host;
use crate::library;
use crate::page::{self, Block};
use crate::project;
use crate::site;

/// Runs the blocks of the page at `path`, on test hosts.
pub(crate) fn follow(path: &str) {
    let blocks = page::read(path).blocks;
    if blocks.is_empty() {
        return;
    }
    if lacks(path, available()) || lacks_tool(path, "ssh") || lacks_tool(path, "/usr/sbin/sshd") {
        return;
    }
    let is_used = |tool: &&str| blocks.iter().any(|block| block.text.contains(*tool));
    if TOOLS
        .into_iter()
        .filter(is_used)
        .any(|tool| lacks_tool(path, tool.trim_end()))
    {
        return;
    }
    let has_stores = blocks.iter().any(|block| block.text.contains("s3://"));
    if has_stores && lacks(path, stores()) {
        return;
    }
    if blocks.iter().any(|block| block.text.contains(" wrap ")) {
        library::build(Path::new(PROGRAM));
    }
    let scratch = Scratch::new(path);
    if blocks
        .iter()
        .any(|block| block.text.contains("import lighthaul"))
    {
        let sources = project().join("crates/python/python");
        let built = Path::new(PROGRAM).parent().unwrap();
        if lacks(
            path,
            site::lay_out(&scratch.0.join("site"), &sources, built),
        ) {
            return;
        }
    }
    let has_c = blocks.iter().any(|block| block.text.contains("pkg-config"));
    if has_c && lacks(path, c_library(&scratch.0)) {
        return;
    }
    if has_stores {
        symlink(s3_server(), scratch.0.join("bin/versitygw")).unwrap();
    }
    let _turn = Turn::beside_others();
    let lab = Lab::start(&Description::parse(HOSTS).unwrap()).unwrap();
    let mut hosts = BTreeMap::new();
    for host in HOSTS_NAMED {
        let is_named = |block: &Block| block.host == host || block.text.contains(host);
        if blocks.iter().any(is_named) {
            hosts.insert(host, Host::start(&lab, host, &scratch.0));
        }
    }
    for block in &blocks {
        let Block { line, host, .. } = block;
        if let Err(why) = host_named(&mut hosts, host).run(block) {
            let logs: String = hosts.values().map(Host::service_logs).collect();
            panic!("{path}:{line}, on {host}: {why}\n{logs}");
        }
    }
}

/// Returns the S3 server that `make test` builds.
fn s3_server() -> PathBuf {
    let target = Path::new(PROGRAM).ancestors().nth(2).unwrap();
    target.join("tools/versitygw")
}

/// Fails if the program has no object stores, or if there is no server of them.
fn stores() -> Result<(), String> {
    if !cfg!(feature = "objects") {
        return Err("needs the feature objects".to_owned());
    }
    let missing = || format!("needs {}: run make test", s3_server().display());
    s3_server().exists().then_some(()).ok_or_else(missing)
}

/// Links the library for C, which cargo has built, into `folder`. Fails if it was not built.
fn c_library(folder: &Path) -> Result<(), String> {
    let built = Path::new(PROGRAM).with_file_name("deps");
    for name in ["liblighthaul_c.so", "liblighthaul_c.a"] {
        let library = built.join(name);
        if !library.exists() {
            return Err("needs the library for C: test the whole workspace".to_owned());
        }
        symlink(library, folder.join(name)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn host_named<'a>(hosts: &'a mut BTreeMap<&str, Host>, name: &str) -> &'a mut Host {
    let host = hosts.get_mut(name);
    host.unwrap_or_else(|| panic!("no test host is called {name}"))
}

/// The files of one page's hosts; they stay if the test fails.
struct Scratch(PathBuf);

impl Scratch {
    fn new(page: &str) -> Self {
        let name = format!("guide-{}-{}", page.replace('/', "-"), std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        for inner in ["bin", "keys"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        symlink(PROGRAM, folder.join("bin/lighthaul")).unwrap();
        symlink(project(), folder.join("project")).unwrap();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.join("keys").join(key))
                .status();
            assert!(made.unwrap().success(), "ssh-keygen");
        }
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).ok();
        }
    }
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_lighthaul");

/// Commands that the pages use and that not every host has.
const TOOLS: [&str; 12] = [
    "c++ ",
    "cc ",
    "pkg-config",
    "curl",
    "iperf3",
    "jq",
    "xxd",
    "python3",
    "nft ",
    "tc ",
    "openssl",
    "pg_ctlcluster",
];
/// Hosts that pages name.
const HOSTS_NAMED: [&str; 3] = ["here", "far", "other"];

/// Description of the lab with these hosts, 10 ms from each other.
const HOSTS: &str = r#"
host = [{ name = "here" }, { name = "far" }, { name = "other" }]
router = [{ name = "net" }]
link = [
    { between = ["here", "net"], rate = "1Gb/s", rtt = "5ms" },
    { between = ["far", "net"], rate = "1Gb/s", rtt = "5ms" },
    { between = ["other", "net"], rate = "1Gb/s", rtt = "5ms" },
]
"#;
