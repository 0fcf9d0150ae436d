//! All scenarios, by name.

use super::books::Books;
use super::copies::{Copies, CopyKind, DiskPosition};
use super::moves::Moves;
use super::program::Program;
use super::versions::Versions;
use crate::trial::Scenario;

/// Names of all scenarios, without [`BOOKS`].
pub const NAMES: [&str; 13] = [
    "keys",
    "known-hosts",
    "allowed",
    "tokens",
    "large",
    "small",
    "replace",
    "resume",
    "inplace",
    "partial-dir",
    "delete",
    "move",
    "nested",
];

/// Name of the scheduler's scenario, which is separate because each of its checks starts a
/// scheduler.
pub const BOOKS: &str = "books";

/// Creates the scenario named `name`. Returns `None` if there is none.
pub fn named(name: &str, program: &Program, seed: u64) -> Option<Box<dyn Scenario>> {
    if let Some((commands, files)) = commands(name) {
        return Some(Box::new(Versions::new(program.clone(), commands, files)));
    }
    if name == BOOKS {
        return Some(Box::new(Books::new(program.clone())));
    }
    if name == "move" {
        return Some(Box::new(Moves::new(program.clone(), seed)));
    }
    let kind = kind(name)?;
    Some(Box::new(Copies::new(program.clone(), kind, seed)))
}

/// Returns the kind of copy named `name`.
fn kind(name: &str) -> Option<CopyKind> {
    let plain = CopyKind {
        large: 1,
        small: 60,
        options: &[],
        replaces: false,
        interrupts: false,
        removes: false,
        position: DiskPosition::Above,
    };
    Some(match name {
        "large" => CopyKind {
            small: 0,
            removes: true,
            ..plain
        },
        "small" => CopyKind {
            large: 0,
            small: 300,
            removes: true,
            ..plain
        },
        "replace" => CopyKind {
            replaces: true,
            ..plain
        },
        "resume" => CopyKind {
            large: 3,
            small: 10,
            interrupts: true,
            ..plain
        },
        "inplace" => CopyKind {
            options: &["--inplace"],
            replaces: true,
            interrupts: true,
            ..plain
        },
        "partial-dir" => CopyKind {
            options: &["--partial-dir", super::tree::PARTIAL],
            interrupts: true,
            ..plain
        },
        "delete" => CopyKind {
            large: 1,
            options: &["--delete", "--yes"],
            replaces: true,
            ..plain
        },
        "nested" => CopyKind {
            position: DiskPosition::Nested,
            ..plain
        },
        _ => return None,
    })
}

/// Returns commands that replace small files, and the files.
fn commands(name: &str) -> Option<(Vec<Vec<String>>, Vec<&'static str>)> {
    let key = |nth: usize| format!("sha256:{}", format!("{nth:x}").repeat(64));
    let words = |line: String| line.split(' ').map(ToOwned::to_owned).collect();
    let lines = |lines: Vec<String>| lines.into_iter().map(words).collect();
    Some(match name {
        "keys" => {
            let files = vec!["one/key", "one/two/key", "key"];
            let line = |file: &&str| format!("key --key {{disk}}/{file}");
            (lines(files.iter().map(line).collect()), files)
        }
        "known-hosts" => {
            let line = |nth: usize| format!("trust --replace host-{} {}", nth % 5, key(nth));
            (
                lines((1..11).map(line).collect()),
                vec!["config/lighthaul/known_hosts"],
            )
        }
        "allowed" => {
            let line = |nth: usize| match nth % 3 {
                0 => format!("deny {} --allowed {{disk}}/keys/allowed", key(nth - 2)),
                _ => format!(
                    "allow {} --root /a --allowed {{disk}}/keys/allowed",
                    key(nth)
                ),
            };
            (lines((1..11).map(line).collect()), vec!["keys/allowed"])
        }
        "tokens" => {
            let daemon = |nth: usize| format!("token name-{nth} --tokens {{disk}}/daemon/tokens");
            let role = |nth: usize| {
                format!("token name-{nth} --role user --tokens {{disk}}/scheduler/tokens")
            };
            let both = (1..6).flat_map(|nth| [daemon(nth), role(nth)]);
            (
                lines(both.collect()),
                vec!["daemon/tokens", "scheduler/tokens"],
            )
        }
        _ => return None,
    })
}
