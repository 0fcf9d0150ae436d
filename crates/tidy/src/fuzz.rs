//! Rule: files that decode input from outside have a fuzz target.

use crate::decoder::decodes;
use crate::fault::Fault;
use crate::sources::{Source, Sources};

/// Finds decoders without a fuzz target.
///
/// `crates/<crate>/src/<folder>/wire.rs` needs the target `<folder>_wire`. Other decoders need a
/// target with their own name, or one that [`REACHED`] lists.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let decoders = sources.ending(".rs").filter(|file| {
        let is_ours = file.path.starts_with("crates/");
        is_ours && file.path.contains("/src/") && !is_trusted(file) && decodes(file)
    });
    let mut faults = Vec::new();
    for file in decoders {
        let target = target(file);
        let path = format!("fuzz/fuzz_targets/{target}.rs");
        if !sources.has(&path) {
            let text = format!("decodes input: add the fuzz target {path}");
            faults.push(Fault::new(&file.path, text));
        } else if !sources
            .ending("fuzz/Cargo.toml")
            .any(|toml| toml.text.contains(&path[5..]))
        {
            faults.push(Fault::new(
                "fuzz/Cargo.toml",
                format!("lacks the fuzz target {}", &path[5..]),
            ));
        }
    }
    faults
}

fn is_trusted(file: &Source) -> bool {
    let is_test = file.name() == "tests.rs" || file.path.contains("/src/tests/");
    is_test || TRUSTED.iter().any(|(path, _)| file.path.starts_with(path))
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

/// Decoders that another decoder's target covers.
const REACHED: [(&str, &str); 11] = [
    ("crates/circuit/src/linux/message.rs", "netlink"),
    ("crates/io/src/control/bounded.rs", "message"),
    ("crates/io/src/crypto/identity.rs", "fingerprint"),
    ("crates/io/src/net/probe.rs", "probe"),
    ("crates/parts/src/tally.rs", "rbudp_wire"),
    ("crates/slabs/src/wire.rs", "slabs_wire"),
    ("crates/booking/src/identity/jwt/signed.rs", "jwt_token"),
    ("crates/session/src/topic.rs", "message"),
    ("crates/files/src/filter/files_from.rs", "files_from"),
    ("crates/files/src/filter/pattern.rs", "filter"),
    ("crates/files/src/filter/rules.rs", "filter"),
];

/// Files and folders that decode only data of the operator or the user, with a reason.
const TRUSTED: [(&str, &str); 16] = [
    ("crates/bench/src/", "results of its own measurements"),
    ("crates/tidy/src/", "manifests of the project"),
    ("crates/xtask/src/", "output of the programs that it starts"),
    (
        "crates/lab/src/",
        "plans of figures, which are part of the source",
    ),
    ("crates/cli/src/config.rs", "the user's own configuration"),
    (
        "crates/cli/src/gateway/status.rs",
        "status of the same user's gateway",
    ),
    (
        "crates/service/src/log.rs",
        "events that its own formatter wrote",
    ),
    (
        "crates/cli/src/sums/",
        "a list of digests that the user names",
    ),
    (
        "crates/files/src/sums/line.rs",
        "a list of digests that the user names",
    ),
    ("crates/booking/src/books/", "its own store"),
    (
        "crates/booking/src/policies.rs",
        "the operator's own policies",
    ),
    (
        "crates/io/src/fs/watched_file.rs",
        "files that the operator names; their readers know the format",
    ),
    (
        "crates/booking/src/identity/tokens.rs",
        "the operator's own tokens",
    ),
    ("crates/booking/src/store/", "its own store"),
    ("crates/booking/src/topology/", "the operator's own network"),
    (
        "crates/transfer/src/vector.rs",
        "a vector that the user names",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    const DECODER: &str = "pub fn decode(octets: &[u8]) {}\n";

    #[test]
    fn decoders_without_a_target_are_found() {
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
    fn target_must_be_listed_in_the_manifest() {
        let files = [
            ("crates/proto/src/rbudp/wire.rs", DECODER),
            ("fuzz/fuzz_targets/rbudp_wire.rs", ""),
        ];
        assert_eq!(check(&Sources::of(&files)).len(), 1);
        let manifest = ("fuzz/Cargo.toml", "path = \"fuzz_targets/rbudp_wire.rs\"");
        assert_eq!(check(&Sources::of(&[files[0], files[1], manifest])), []);
    }

    #[test]
    fn decoder_with_type_arguments_is_found() {
        let text = "let Ok((claim, [])) = postcard::take_from_bytes::<Claim>(claim) else {";
        let file = ("crates/gateway/src/claim.rs", text);
        assert_eq!(check(&Sources::of(&[file])).len(), 1);
    }

    #[test]
    fn trusted_files_need_no_target() {
        let plan = ("crates/lab/src/plan.rs", "toml::from_str(text)");
        assert_eq!(check(&Sources::of(&[plan])), []);
    }
}
