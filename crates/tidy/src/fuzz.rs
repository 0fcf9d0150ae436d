//! Rule: files that decode input from outside have a fuzz target.
//!
//! `decoder` finds the files, and their paths determine the names of targets. A file passes if its
//! target exists in `fuzz/fuzz_targets` and in the manifest there. `REACHED` maps a file to the
//! target of another decoder that calls it. `TRUSTED` lists files whose input comes from the
//! operator, the user or the program itself. The rule does not check that a target really calls the
//! decoder.

use std::collections::BTreeMap;

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
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for file in decoders {
        let target = target(file);
        if !is_reached(file)
            && let Some(owner) = owners.insert(target.clone(), &file.path)
        {
            let text = format!("has the name of a fuzz target of {owner}: list it as reached");
            faults.push(Fault::new(&file.path, text));
        }
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
    let is_test = file.name() == "tests.rs" || file.path.contains("/tests/");
    is_test || TRUSTED.iter().any(|(path, _)| file.path.starts_with(path))
}

fn is_reached(file: &Source) -> bool {
    REACHED.iter().any(|(path, _)| file.path == *path)
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
const REACHED: [(&str, &str); 76] = [
    ("crates/packing/src/channel.rs", "packing"),
    ("crates/packing/src/message.rs", "packing"),
    ("crates/packing/src/number.rs", "packing"),
    ("crates/packing/src/schema.rs", "packing"),
    ("crates/packing/src/wire.rs", "packing"),
    ("crates/buckets/src/answer.rs", "bucket_answer"),
    ("crates/buckets/src/attributes.rs", "bucket_answer"),
    ("crates/buckets/src/checksum.rs", "bucket_answer"),
    ("crates/buckets/src/ranges.rs", "bucket_answer"),
    ("crates/buckets/src/s3.rs", "bucket_answer"),
    ("crates/stargate/src/key.rs", "control_path_id"),
    ("crates/domain-links/src/link_thread.rs", "stargate_wire"),
    ("crates/files/src/mode_changes.rs", "filter"),
    ("crates/base/src/civil.rs", "quantity"),
    ("crates/base/src/codec.rs", "rbudp_wire"),
    ("crates/base/src/duration.rs", "quantity"),
    ("crates/base/src/port_range.rs", "quantity"),
    ("crates/base/src/prefix.rs", "target_rules"),
    ("crates/base/src/rate.rs", "quantity"),
    ("crates/base/src/size.rs", "quantity"),
    ("crates/base/src/timetable.rs", "quantity"),
    ("crates/base/src/trc/text.rs", "trc"),
    (
        "crates/scheduler/src/identity/jwt/signed_token.rs",
        "jwt_token",
    ),
    ("crates/scheduler/src/identity/jwk.rs", "identity_jwks"),
    ("crates/booking-client/src/json/amount.rs", "api_extract"),
    ("crates/booking-client/src/json/timestamp.rs", "api_extract"),
    ("crates/booking-client/src/json/request.rs", "api_extract"),
    ("crates/booking-client/src/json/job.rs", "api_extract"),
    ("crates/circuit/src/flow.rs", "exec_answer"),
    ("crates/circuit/src/tl1/dialect.rs", "tl1_message"),
    ("crates/circuit/src/linux/tc_object.rs", "netlink"),
    ("crates/kernel/src/htb.rs", "netlink"),
    ("crates/kernel/src/tc_message.rs", "netlink"),
    ("crates/circuit/src/linux/filter.rs", "netlink"),
    ("crates/files/src/delta/scan.rs", "delta"),
    ("crates/files/src/delta/summer.rs", "delta"),
    ("crates/files/src/filter/files_from.rs", "files_from"),
    ("crates/lighthaul/src/list.rs", "files_from"),
    ("crates/lighthaul/src/limit.rs", "quantity"),
    ("crates/files/src/filter/pattern.rs", "filter"),
    ("crates/files/src/filter/rules.rs", "filter"),
    ("crates/capture/src/connect.rs", "capture_connect"),
    ("crates/capture/src/ports.rs", "target_rules"),
    ("crates/capture/src/socks.rs", "capture_socks"),
    ("crates/io/src/control/bounded.rs", "message"),
    ("crates/io/src/crypto/identity.rs", "fingerprint"),
    ("crates/io/src/net/probe.rs", "probe"),
    ("crates/proto/src/fec/code.rs", "fec_wire"),
    ("crates/parts/src/tally.rs", "rbudp_wire"),
    ("crates/slabs/src/wire.rs", "slabs_wire"),
    ("crates/stargate/src/wire.rs", "stargate_wire"),
    ("crates/stargate/src/record.rs", "stargate_wire"),
    ("crates/stargate/src/fields.rs", "stargate_wire"),
    ("crates/launch/src/elf.rs", "launch_elf"),
    ("crates/remote/src/ssh/report.rs", "ssh_greeting"),
    ("crates/session/src/topic.rs", "message"),
    ("crates/gateway/src/cluster.rs", "token_wire"),
    ("crates/io/src/control/frame.rs", "frame"),
    ("crates/io/src/control/protection.rs", "frame"),
    ("crates/io/src/crypto/seal.rs", "probe"),
    ("crates/nsi/src/message/criteria.rs", "nsi_message"),
    ("crates/nsi/src/message/envelope.rs", "nsi_message"),
    ("crates/nsi/src/message/exception.rs", "nsi_message"),
    ("crates/nsi/src/message/notification.rs", "nsi_message"),
    ("crates/nsi/src/message/query.rs", "nsi_message"),
    ("crates/nsi/src/message/states.rs", "nsi_message"),
    ("crates/nsi/src/message/wire.rs", "nsi_message"),
    ("crates/nsi/src/provider/stp.rs", "nsi_message"),
    ("crates/nsi/src/xml/element.rs", "nsi_message"),
    ("crates/proto/src/fec/receiver.rs", "fec_machines"),
    ("crates/proto/src/rbudp/receiver.rs", "rbudp_machines"),
    ("crates/proto/src/sabul/receiver.rs", "sabul_machines"),
    ("crates/proto/src/vbtp/receiver.rs", "vbtp_machines"),
    ("crates/receive/src/entry_checker.rs", "manifest"),
    ("crates/slabs/src/receiver.rs", "slabs_machines"),
    ("crates/wrap/src/script.rs", "elf"),
];

/// Files and directories that decode only trusted data (of the operator, the user or Lighthaul), with a reason.
const TRUSTED: [(&str, &str); 70] = [
    (
        "crates/fs/src/packed_names.rs",
        "names that the program itself has packed",
    ),
    (
        "crates/booking-client/src/events.rs",
        "events of the scheduler that the user has chosen",
    ),
    (
        "crates/scheduler/src/device_record.rs",
        "file that only the scheduler writes",
    ),
    (
        "crates/buckets/src/profile.rs",
        "files and programs of the user",
    ),
    (
        "crates/buckets/src/answers.rs",
        "the entry of the fuzz target itself",
    ),
    (
        "crates/remote-files/src/client/",
        "paths of the user; `message` decodes what the server sends",
    ),
    (
        "crates/remote-files/src/server/",
        "paths and bytes of messages that `message` decodes",
    ),
    ("crates/remote-files/src/span.rs", "ranges of the user"),
    ("crates/mount/src/", "requests of programs on this host"),
    (
        "crates/kernel/src/segment.rs",
        "packets of the kernel of a test host",
    ),
    (
        "crates/scheduler/src/bin/lease.rs",
        "settings of the operator; an inbox of nsi decodes messages",
    ),
    (
        "crates/workload/src/circuit.rs",
        "sent by machines of the same simulation",
    ),
    (
        "crates/workload/src/tcp/messages.rs",
        "sent by machines of the same simulation",
    ),
    (
        "crates/circuit/src/conformance/",
        "the device of a test, in a file of the author",
    ),
    (
        "crates/nsi/src/provider/config.rs",
        "written by the operator",
    ),
    ("crates/nsi/src/provider/state.rs", "our own store"),
    (
        "crates/domains/src/random.rs",
        "numbers of its own random generator",
    ),
    (
        "crates/domains/src/config/",
        "the operator's own configuration",
    ),
    ("crates/domains/src/store.rs", "its own store"),
    ("crates/monitor/src/history.rs", "its own store"),
    ("crates/queue/src/list.rs", "its own store"),
    ("crates/queue/src/database/", "its own store"),
    (
        "crates/python/src/rest.rs",
        "requests that the calling program passes",
    ),
    ("crates/queue/src/secrets.rs", "its own store"),
    (
        "crates/database/src/postgres_server.rs",
        "a URL and a file of the operator",
    ),
    ("crates/queue/src/child.rs", "events of its own command"),
    (
        "crates/monitor/src/sample/",
        "files of this host's own kernel",
    ),
    ("crates/remote/src/known_paths.rs", "the user's own cache"),
    (
        "crates/remote/src/ssh/closed_hosts.rs",
        "the user's own cache",
    ),
    ("crates/bench/src/", "results of its own measurements"),
    ("crates/tidy/src/", "manifests of the project"),
    ("crates/xtask/src/", "output of the programs that it starts"),
    (
        "crates/booking-figures/src/",
        "plans of figures, which are part of the source",
    ),
    (
        "crates/lab/src/",
        "plans of figures, which are part of the source",
    ),
    ("crates/cli/src/config.rs", "the user's own configuration"),
    ("crates/cli/src/complete.rs", "events of its own command"),
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
    (
        "crates/circuit/src/tl1/config.rs",
        "the operator's own settings",
    ),
    ("crates/circuit/src/tl1/record.rs", "its own store"),
    ("crates/booking/src/books/", "its own store"),
    (
        "crates/booking/src/policies.rs",
        "the operator's own policies",
    ),
    (
        "crates/fs/src/watched_file.rs",
        "files that the operator names; their readers know the format",
    ),
    (
        "crates/scheduler/src/identity/tokens.rs",
        "the operator's own tokens",
    ),
    ("crates/booking/src/store/", "its own store"),
    ("crates/booking/src/topology/", "the operator's own network"),
    (
        "crates/session/src/vector.rs",
        "a vector that the user names",
    ),
    (
        "crates/booking-client/src/role.rs",
        "the operator's own list of tokens",
    ),
    (
        "crates/cli/src/gateway/run.rs",
        "the user's own command line",
    ),
    ("crates/grammar/src/", "the user's own command line"),
    ("crates/remote/src/place.rs", "the user's own command line"),
    (
        "crates/remote/src/ssh/command.rs",
        "the user's own configuration of ssh",
    ),
    (
        "crates/daemon/src/allowed_keys.rs",
        "the operator's own list of keys",
    ),
    (
        "crates/daemon/src/rights.rs",
        "the operator's own list of keys",
    ),
    ("crates/files/src/hash.rs", "the user's own command line"),
    ("crates/files/src/names.rs", "a digest that it computes"),
    (
        "crates/files/src/temp_names.rs",
        "a digest that it computes",
    ),
    (
        "crates/capture/src/credentials.rs",
        "the operator's own list of users",
    ),
    (
        "crates/gateway/src/proxy_address.rs",
        "the user's own command line",
    ),
    (
        "crates/gateway/src/splice_proxy.rs",
        "tokens of its own table",
    ),
    (
        "crates/io/src/net/train.rs",
        "a prefix, of which every value is valid",
    ),
    (
        "crates/io/src/net/udp.rs",
        "a number in a control message that it builds",
    ),
    (
        "crates/capi/src/memory.rs",
        "texts that the calling program passes",
    ),
    (
        "crates/lighthaul/src/streams/request.rs",
        "a place of the calling program",
    ),
    (
        "crates/python/src/options.rs",
        "options that the calling program passes",
    ),
    (
        "crates/lighthaul/src/streams/stream.rs",
        "lengths of messages of its own thread",
    ),
    (
        "crates/session/src/secrets.rs",
        "a number of its own key material",
    ),
    (
        "crates/wrap/src/gateway.rs",
        "the environment that the command sets",
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
            "crates/copy/src/message.rs",
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
    fn two_decoders_with_the_same_name_need_separate_targets() {
        let files = [
            ("crates/gateway/src/word.rs", DECODER),
            ("crates/stream/src/word.rs", DECODER),
            ("fuzz/fuzz_targets/word.rs", ""),
            ("fuzz/Cargo.toml", "path = \"fuzz_targets/word.rs\""),
        ];
        let faults = check(&Sources::of(&files));
        assert_eq!(faults.len(), 1);
        let reached = ("crates/session/src/topic.rs", DECODER);
        let owner = ("crates/copy/src/message.rs", DECODER);
        let target = ("fuzz/fuzz_targets/message.rs", "");
        let manifest = ("fuzz/Cargo.toml", "path = \"fuzz_targets/message.rs\"");
        let files = Sources::of(&[reached, owner, target, manifest]);
        assert_eq!(check(&files), []);
    }

    #[test]
    fn trusted_files_need_no_target() {
        let plan = ("crates/lab/src/plan.rs", "toml::from_str(text)");
        assert_eq!(check(&Sources::of(&[plan])), []);
    }
}
