//! Commands of blocks that do not run: the targets, packages, units and settings that they name exist.

use std::fs;
use std::path::Path;

use crate::{PAGES, page, project};

#[test]
fn commands_that_are_not_run_name_existing_options() {
    let mut faults = Vec::new();
    let mut count = 0;
    for path in PAGES {
        for (line, text) in page::read(path).not_run {
            count += 1;
            if let Err(why) = check(&text) {
                faults.push(format!("{path}:{line}: {text}: {why}"));
            }
        }
    }
    assert!(count > 0 && faults.is_empty(), "{}", faults.join("\n"));
}

/// Requires the options among these words to be fields in a file of the grammar.
fn has_options(path: &str, words: &[&str]) -> Result<(), String> {
    let options = words.iter().filter_map(|word| word.strip_prefix("--"));
    let mut fields = options.map(|option| format!("    pub {}:", option.replace('-', "_")));
    fields.try_for_each(|field| contains_line(path, &field))
}

/// Checks the files and options that a command names. A command without a check here is a fault.
fn check(text: &str) -> Result<(), String> {
    let command = text.split(" #").next().unwrap_or_default();
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["pip", "install", "target/wheels/*.whl"] => contains_line("Makefile", "wheel:"),
        ["pip", "install", folder] => {
            contains_line(&format!("{folder}/pyproject.toml"), "[project]")
        }
        ["lighthaul", "lab", "run", .., "python3", program] => {
            require(project().join(program).exists(), "no such program")
        }
        ["cp", file, "/etc/slurm/"] => {
            let name = file.strip_prefix("/usr/local/share/lighthaul/");
            let name = name.ok_or("it is not a file of ours")?;
            require(
                project().join("integrations").join(name).exists(),
                "no such file",
            )
        }
        ["ldconfig"] => Ok(()),
        ["make", target, ..] => contains_line("Makefile", &format!("{target}:")),
        [
            "cargo",
            "test",
            "-p",
            package,
            "--features",
            "full",
            "--test",
            test,
            ..,
        ] => {
            let folder = package.trim_start_matches("lighthaul-");
            let tests = project().join("crates").join(folder).join("tests");
            let is_there = tests.join(test).join("main.rs").exists();
            let is_file = tests.join(test).with_extension("rs").exists();
            require(is_there || is_file, "no such test")
        }
        ["lighthaul-conformance", "--device", _, program] => {
            require(project().join(program).exists(), "no such driver program")?;
            contains_line("scripts/lay-out", "for name in lighthaul-conformance")
        }
        ["lighthaul-lease", _] => contains_line(
            "scripts/lay-out",
            "for name in lighthaul-conformance lighthaul-lease;",
        ),
        [
            "cargo",
            "run",
            "--release",
            "-p",
            package,
            "--example",
            example,
            ..,
        ] => {
            let folder = package.trim_start_matches("lighthaul-");
            let examples = project().join("crates").join(folder).join("examples");
            let is_there = examples.join(example).with_extension("rs").exists();
            require(is_there, "no such example")
        }
        ["lighthaul", "monitor", ref words @ ..] => {
            contains_line("docs/src/SUMMARY.md", "- [Monitoring a host]")?;
            has_options("crates/grammar/src/monitor.rs", words)
        }
        ["lighthaul", "jobs", _, ref words @ ..] => {
            let copy = words.iter().position(|word| *word == "cp");
            let words = &words[..copy.unwrap_or(words.len())];
            has_options("crates/grammar/src/jobs.rs", words)
        }
        ["lighthaul", "mount", _, _, ref words @ ..] => {
            contains_line("crates/grammar/src/cli.rs", "    Mount(Mount),")?;
            has_options("crates/grammar/src/files.rs", words)
        }
        ["lighthaul", "path", _, _, ref words @ ..] => {
            has_options("crates/grammar/src/domains.rs", words)
        }
        ["lighthaul", "cp", "--book-path", ref words @ ..] => {
            has_options("crates/grammar/src/booking.rs", words)
        }
        [
            "lighthaul",
            "scheduler",
            "--topology",
            _,
            "--device",
            device,
            ..,
        ] => {
            let program = device.split_once("=/usr/local/lib/lighthaul/");
            let (_, program) = program.ok_or("a device has no program of ours")?;
            require(project().join(program).exists(), "no such driver program")
        }
        ["lighthaul", "scheduler", ref words @ ..] => {
            has_options("crates/grammar/src/scheduler.rs", words)
        }
        ["systemctl", "enable", "--now", unit]
        | ["systemctl", "--user", "enable", "--now", unit] => {
            let unit = project().join("dist").join(format!("{unit}.service"));
            require(unit.exists(), "no such unit in dist")
        }
        ["ufw", "allow", name] => contains_line("dist/lighthaul.ufw", &format!("[{name}]")),
        ["sysctl", "-w", ref settings @ ..] => settings.iter().try_for_each(|word| {
            let (name, value) = word.split_once('=').ok_or("a setting has no value")?;
            let kernel = Path::new("/proc/sys").join(name.replace('.', "/"));
            require(kernel.exists(), "the kernel has no such setting")?;
            contains_line("dist/lighthaul.sysctl.conf", &format!("{name} = {value}"))
        }),
        _ => Err("add a check of this command to not_run.rs".to_owned()),
    }
}

/// Returns an error unless a line of this file of the project begins with `start`.
fn contains_line(file: &str, start: &str) -> Result<(), String> {
    let text = fs::read_to_string(project().join(file)).map_err(|why| why.to_string())?;
    let is_there = text.lines().any(|line| line.starts_with(start));
    require(is_there, &format!("{file} has no line {start}"))
}

fn require(is_met: bool, why: &str) -> Result<(), String> {
    is_met.then_some(()).ok_or_else(|| why.to_owned())
}

#[test]
fn unknown_names_in_commands_are_found() {
    for text in [
        "make book  # the guide",
        "cargo test -p lighthaul-cli --features full --test guide gateways",
    ] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    for text in [
        "make nothing",
        "cargo test -p lighthaul-cli --features full --test nothing",
        "lighthaul-conformance --device device.json nothing",
        "cargo run --release -p lighthaul-domains --example nothing",
        "systemctl enable --now nothing",
        "sysctl -w net.core.rmem_max=1",
        "apt install lighthaul",
    ] {
        assert!(check(text).is_err(), "{text}");
    }
}
