//! What reads a stranger's octets has a fuzz target.

use crate::tidy::fault::Fault;
use crate::tidy::sources::{Source, Sources};

/// Finds decoders that no fuzz target reaches: `crates/<crate>/src/<room>/wire.rs` needs the target
/// `<room>_wire`, another file that decodes needs one with its own name or one that [`REACHED`] lists.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let decoders = sources.ending(".rs").filter(|file| {
        let is_ours = file.path.starts_with("crates/") && !file.path.starts_with("crates/xtask/");
        is_ours && file.path.contains("/src/") && decodes(file)
    });
    let mut faults = Vec::new();
    for file in decoders {
        let target = target(file);
        let path = format!("fuzz/fuzz_targets/{target}.rs");
        if !sources.has(&path) {
            faults.push(Fault::new(
                &file.path,
                format!("decodes, but there is no {path}"),
            ));
        } else if !sources
            .ending("fuzz/Cargo.toml")
            .any(|toml| toml.text.contains(&path[5..]))
        {
            faults.push(Fault::new(
                "fuzz/Cargo.toml",
                format!("does not name {}", &path[5..]),
            ));
        }
    }
    faults
}

fn decodes(file: &Source) -> bool {
    file.lines().map(|(_, line)| line.trim_start()).any(|line| {
        let code = ["pub(crate) ", "pub "]
            .iter()
            .find_map(|head| line.strip_prefix(head));
        let calls = !line.starts_with("//") && CALLS.iter().any(|call| line.contains(call));
        calls || code.unwrap_or(line).starts_with("fn decode")
    })
}

fn target(file: &Source) -> String {
    if let Some((_, target)) = REACHED.iter().find(|(path, _)| file.path == *path) {
        return (*target).to_owned();
    }
    let mut steps = file.path.trim_end_matches(".rs").rsplit('/');
    let name = steps.next().unwrap_or_default();
    match steps.next() {
        Some(room) if room != "src" => format!("{room}_{name}"),
        _ => name.to_owned(),
    }
}

/// What decodes in one call.
const CALLS: [&str; 2] = ["postcard::from_bytes(", "postcard::take_from_bytes("];

/// Decoders that are reached through another's target.
const REACHED: [(&str, &str); 1] = [("crates/proto/src/parts/tally.rs", "rbudp_wire")];

#[cfg(test)]
mod tests {
    use super::*;

    const DECODER: &str = "pub fn decode(octets: &[u8]) {}\n";

    #[test]
    fn decoders_without_targets_are_found() {
        for path in [
            "crates/proto/src/rbudp/wire.rs",
            "crates/transfer/src/message.rs",
        ] {
            assert_eq!(check(&Sources::of(&[(path, DECODER)])).len(), 1, "{path}");
        }
        assert_eq!(
            check(&Sources::of(&[("crates/proto/src/rbudp/wire.rs", "")])),
            []
        );
    }

    #[test]
    fn a_target_must_also_be_built() {
        let files = [
            ("crates/proto/src/rbudp/wire.rs", DECODER),
            ("fuzz/fuzz_targets/rbudp_wire.rs", ""),
        ];
        assert_eq!(check(&Sources::of(&files)).len(), 1);
        let manifest = ("fuzz/Cargo.toml", "path = \"fuzz_targets/rbudp_wire.rs\"");
        assert_eq!(check(&Sources::of(&[files[0], files[1], manifest])), []);
    }
}
