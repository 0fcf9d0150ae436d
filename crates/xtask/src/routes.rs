//! `cargo xtask routes`: goodput of a copy over three routes, against that over one of them.
//!
//! The SABUL paper's Lambda-FTP moved data from Amsterdam to Chicago over three routes (its Table 1: 902.8, 902.9 and
//! 907.1 Mb/s, 2712.8 together). Here each route joins one pair of hosts of a lab, at the paper's round-trip time. Its
//! rate is one that two cores can emulate three times. All hosts share one directory.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::Lab;

use crate::demo::daemon::{key, run as finish, start};
use crate::demo::{Folder, Running, release};

/// Number of routes.
const ROUTES: usize = 3;
/// Rate of each route in Mb/s, unless another is given.
const RATE_MBPS: u64 = 150;
/// Round-trip time between Amsterdam and Chicago.
const RTT: &str = "110ms";
/// Rate and round-trip time of the network that joins the hosts of one site with the client.
const NEAR_MBPS: u64 = 1000;
const NEAR_RTT: &str = "1ms";
/// Time that one route needs for its share, without start-up.
const SECONDS: u64 = 80;
/// Runs of each case.
const RUNS: usize = 3;

/// Measures both cases, and prints a table. The program is that of the release build, or at the path in `words`.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let usage = || "usage: cargo xtask routes [PROGRAM [MBPS]]".to_owned();
    let (program, rate) = match words {
        [] => (release()?.join("lighthaul"), RATE_MBPS),
        [program] => (PathBuf::from(program), RATE_MBPS),
        [program, rate] => (PathBuf::from(program), rate.parse().map_err(|_| usage())?),
        _ => return Err(usage()),
    };
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = Folder::make(&own, "routes")?;
    let site = Site::start(&program, folder.path(), rate)?;
    println!("{ROUTES} routes of {rate} Mb/s, {RTT} round trip, one pair of hosts each");
    println!("| run | one route (Mb/s) | {ROUTES} routes (Mb/s) | ratio |");
    println!("|---|---|---|---|");
    let mut ratios = Vec::new();
    for run in 1..=RUNS {
        let one = site.copy(1)?;
        let all = site.copy(ROUTES)?;
        ratios.push(all / one);
        println!("| {run} | {one:.1} | {all:.1} | {:.2} |", all / one);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[RUNS / 2];
    let percent = 100.0 * median / ROUTES as f64;
    println!("median: {median:.2} times one route, {percent:.1} % of {ROUTES} times");
    Ok(())
}

/// Hosts of both sites, with a daemon each, and the client.
struct Site<'a> {
    /// Daemons, which end before the lab does.
    _daemons: Vec<Running>,
    lab: Lab,
    program: &'a Path,
    folder: &'a Path,
}

impl<'a> Site<'a> {
    fn start(program: &'a Path, folder: &'a Path, rate: u64) -> Result<Self, String> {
        let lab = Lab::start(&description(rate)?).map_err(|e| e.to_string())?;
        let client = key(program, &folder.join("client_key"))?;
        let allowed = folder.join("allowed");
        finish(
            Command::new(program)
                .arg("allow")
                .arg(client)
                .arg("--allowed")
                .arg(&allowed),
        )?;
        let mut daemons = Vec::new();
        for side in ["a", "b"] {
            for route in 1..=ROUTES {
                let host = format!("{side}{route}");
                let mut serve = lab.command(&host, program).map_err(|e| e.to_string())?;
                serve.args(["serve", "--root"]).arg(folder);
                serve
                    .arg("--key")
                    .arg(folder.join(format!("{host}_key")))
                    .arg("--allowed")
                    .arg(&allowed);
                daemons.push(start(&mut serve, "listening")?);
            }
        }
        let share = rate * 1_000_000 / 8 * SECONDS;
        fill(&folder.join("data1"), share)?;
        fill(&folder.join(format!("data{ROUTES}")), share * ROUTES as u64)?;
        Ok(Self {
            _daemons: daemons,
            lab,
            program,
            folder,
        })
    }

    /// Copies over the first `routes` routes. Returns the goodput in Mb/s.
    fn copy(&self, routes: usize) -> Result<f64, String> {
        let hosts = |side: &str| {
            let hosts = (1..=routes).map(|route| format!("{side}{route}"));
            hosts.collect::<Vec<_>>().join(",")
        };
        let name = format!("data{routes}");
        let command = self.lab.command("c", self.program);
        let mut cp = command.map_err(|e| e.to_string())?;
        let settings = self.folder.join("settings");
        cp.env("XDG_CONFIG_HOME", &settings)
            .env("XDG_CACHE_HOME", &settings)
            .args(["cp", "--json", "--key"])
            .arg(self.folder.join("client_key"))
            .arg(format!("lh://{}/{name}", hosts("a")))
            .arg(format!("lh://{}/arrived", hosts("b")))
            .stderr(Stdio::inherit());
        let told = finish(&mut cp)?;
        let arrived = self.folder.join("arrived");
        let is_whole = same(&self.folder.join(&name), &arrived).map_err(|e| e.to_string())?;
        fs::remove_file(&arrived).map_err(|e| e.to_string())?;
        if !is_whole {
            return Err("the copy differs".to_owned());
        }
        let last = told.lines().last().unwrap_or_default();
        let summary: serde_json::Value = serde_json::from_str(last).map_err(|e| e.to_string())?;
        let seconds = summary["elapsed_s"].as_f64().unwrap_or(f64::INFINITY);
        let bytes = summary["bytes"].as_f64().unwrap_or_default();
        Ok(bytes * 8.0 / seconds / 1e6)
    }
}

/// Returns the lab: a route between each pair of hosts, and a network that joins all hosts with the client.
fn description(rate: u64) -> Result<Description, String> {
    let routes = || 1..=ROUTES;
    let host = |name: String| format!("{{ name = \"{name}\" }}");
    let ends = routes().flat_map(|route| [format!("a{route}"), format!("b{route}")]);
    let hosts: Vec<_> = ["c".to_owned()].into_iter().chain(ends).map(host).collect();
    let link = |one: &str, other: &str, rate: u64, rtt: &str| {
        format!(
            "[[link]]\nbetween = [\"{one}\", \"{other}\"]\nrate = \"{rate}Mb/s\"\nrtt = \"{rtt}\"\n"
        )
    };
    let links = routes().flat_map(|route| {
        let (a, b) = (format!("a{route}"), format!("b{route}"));
        [
            link(&a, &b, rate, RTT),
            link(&a, "r", NEAR_MBPS, NEAR_RTT),
            link(&b, "r", NEAR_MBPS, RTT),
        ]
    });
    let links: Vec<_> = [link("c", "r", NEAR_MBPS, NEAR_RTT)]
        .into_iter()
        .chain(links)
        .collect();
    let text = format!(
        "host = [{}]\nrouter = [{{ name = \"r\" }}]\n{}",
        hosts.join(", "),
        links.concat()
    );
    Description::parse(&text).map_err(|e| e.to_string())
}

/// Creates a file of `len` random bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "the files are for the measurement only"
)]
pub(crate) fn fill(path: &Path, len: u64) -> Result<(), String> {
    let copy = || -> io::Result<u64> {
        let mut source = File::open("/dev/urandom")?.take(len);
        io::copy(&mut source, &mut File::create(path)?)
    };
    copy()
        .map(drop)
        .map_err(|e| format!("cannot create {}: {e}", path.display()))
}

/// Returns true if both files have the same bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "the files are for the measurement only"
)]
fn same(one: &Path, other: &Path) -> io::Result<bool> {
    let mut files = [File::open(one)?, File::open(other)?];
    if files[0].metadata()?.len() != files[1].metadata()?.len() {
        return Ok(false);
    }
    let mut blocks = [vec![0; 1 << 20], vec![0; 1 << 20]];
    loop {
        let len = files[0].read(&mut blocks[0])?;
        if len == 0 {
            return Ok(true);
        }
        files[1].read_exact(&mut blocks[1][..len])?;
        if blocks[0][..len] != blocks[1][..len] {
            return Ok(false);
        }
    }
}
