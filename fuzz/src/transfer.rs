//! Decoders of transfers: messages of two ends of a session, manifests, filters, lists, journals.

use std::fmt::Debug;

use lighthaul_copy::{message, relay};
use lighthaul_files::filter::{Decision, FilesFrom, FilterOption, Rules, Separator};
use lighthaul_files::manifest::{pack, unpack};
use lighthaul_files::mode_changes::ModeChanges;
use lighthaul_files::request::FileReply;
use lighthaul_fs::version::Look;
use lighthaul_session::topic::{Topic, decode as decode_value, encode as encode_value};
use lighthaul_session::{checkup, measure};
use lighthaul_stream as stream;
use lighthaul_transfer::receive::journal::{Subject, decode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes a message of every topic, and requests of clients. What decodes encodes to octets that
/// decode to the same value.
pub fn message(octets: &[u8]) {
    topic::<lighthaul_session::message::Message>(octets);
    topic::<message::Message>(octets);
    topic::<FileReply>(octets);
    topic::<stream::message::Message>(octets);
    topic::<relay::Message>(octets);
    topic::<checkup::message::Message>(octets);
    topic::<measure::Message>(octets);
    same::<message::Listing>(octets);
}

fn topic<M: Topic<Request: PartialEq + Debug> + PartialEq + Debug>(octets: &[u8]) {
    let frame = [&[M::NUMBER], octets].concat();
    if let Ok(message) = M::decode(&frame) {
        assert_eq!(M::decode(&message.encode()), Ok(message));
    }
    same::<M::Request>(octets);
}

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(octets: &[u8]) {
    if let Ok(value) = decode_value::<T>(octets) {
        assert_eq!(decode_value::<T>(&encode_value(&value)), Ok(value));
    }
}

/// Unpacks a part of a manifest. Its paths are safe, and it packs to octets that unpack to the same
/// entries.
pub fn manifest(octets: &[u8]) {
    if let Ok(entries) = unpack(octets) {
        for entry in &entries {
            assert!(!entry.path.starts_with(b"/"), "a path leaves the target");
        }
        if let Ok(packed) = pack(&entries) {
            assert_eq!(unpack(&packed), Ok(entries));
        }
    }
}

/// Decodes rules, and applies them to the octets after them. What decodes stays the same when it is
/// encoded again. Also parses a rule of a user, and applies it.
pub fn filter(octets: &[u8]) {
    if let Ok(text) = std::str::from_utf8(octets)
        && let Ok(changes) = ModeChanges::parse(text, 0o022)
    {
        assert_eq!(
            changes.apply(0o100_644, false) >> 12,
            0o10,
            "only permission bits change"
        );
    }
    let (rules, path) = match postcard::take_from_bytes::<Rules>(octets) {
        Ok(read) => read,
        Err(_) => (Rules::default(), octets),
    };
    let crossed = postcard::to_allocvec(&rules).expect("rules have octets");
    assert_eq!(postcard::from_bytes(&crossed), Ok(rules.clone()));
    for folder in [false, true] {
        let decision = rules.decide(path, folder);
        assert!(!rules.is_empty() || decision == Decision::Include);
    }
    let half = octets.len() / 2;
    if let Ok(rules) = Rules::parse(&[FilterOption::Exclude(octets[..half].to_vec())]) {
        rules.decide(&octets[half..], false);
    }
}

/// Reads a list of files. No listed path leaves the source.
pub fn files_from(octets: &[u8]) {
    for separator in [Separator::Line, Separator::Nul] {
        for path in FilesFrom::new(octets, separator).flatten() {
            let names = path.split(|octet| *octet == b'/');
            assert!(!path.contains(&0), "a path contains a NUL");
            for name in names {
                assert!(
                    !matches!(name, b"" | b"." | b".."),
                    "a path leaves the source"
                );
            }
        }
    }
}

/// Decodes the octets as a journal. Then decodes them as records of a journal with right checksums,
/// except where an octet says otherwise. All decoded ranges are within the file.
pub fn journal(octets: &[u8]) {
    let subject = Subject {
        look: Look {
            size: 1 << 20,
            seconds: 1,
            nanos: 2,
        },
        boot: 3,
    };
    let mut journal = b"LHJRNL02".to_vec();
    journal.extend((1_u64 << 20).to_be_bytes());
    journal.extend(1_i64.to_be_bytes());
    journal.extend(2_u32.to_be_bytes());
    journal.extend(3_u64.to_be_bytes());
    sum(&mut journal, 0);
    for record in octets.chunks_exact(19) {
        let from = journal.len();
        journal.extend(&record[1..]);
        sum(&mut journal, from);
        if record[0] == 0xff {
            journal.pop();
        }
    }
    assert!(decode(&journal, subject).is_ok(), "the header is right");
    for journal in [octets, &journal] {
        let proved = decode(journal, subject).unwrap_or_default();
        assert!(proved.len() <= journal.len() / 22);
        for record in proved {
            let (from, till) = record.span;
            assert!(from < till && till <= subject.look.size, "{from}..{till}");
        }
    }
}

/// Appends the checksum of the octets from `from` on.
fn sum(journal: &mut Vec<u8>, from: usize) {
    let sum = blake3::hash(&journal[from..]);
    journal.extend(&sum.as_bytes()[..4]);
}
