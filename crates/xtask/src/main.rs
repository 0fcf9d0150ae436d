//! Development tasks: `cargo xtask tidy` checks the project's rules, and `demo` shows a copy.
//! `demo-domains` shows a path across domains.
//!
//! `bench` compares Lighthaul with its peers, `crash` kills it during copies, and `gateways`
//! compares gateways with direct connections. `cores` measures processor time, and `routes` a copy over three routes.
//! `sim` runs protocols in random simulations, and `man` writes the man pages.
#![expect(clippy::print_stdout, reason = "a task prints its results")]
#![expect(clippy::print_stderr, reason = "a task prints its results")]

mod cores;
mod crash;
mod demo;
mod demo_domains;
mod gateways;
mod man;
mod routes;
mod sim;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => lighthaul_tidy::run(root()),
        ["bench", ..] => return lighthaul_bench::main(std::env::args_os().skip(2)),
        ["crash", ..] => return crash::main(&std::env::args_os().skip(2).collect::<Vec<_>>()),
        ["cores", rest @ ..] => cores::run(rest),
        ["sim", rest @ ..] => sim::main(rest),
        ["gateways", ..] => return gateways::main(std::env::args_os().skip(2)),
        ["man"] => man::run(root()),
        ["routes", rest @ ..] => routes::run(rest),
        ["demo"] => demo::run(),
        ["demo-domains"] => demo_domains::run(root()),
        ["demo", "in", folder] => demo::run_in(Path::new(folder)),
        _ => Err(
            "usage: cargo xtask tidy | demo | demo-domains | bench | cores | crash | gateways | routes | sim | man"
                .to_owned(),
        ),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the workspace.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
