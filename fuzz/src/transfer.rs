//! Transfers: what two ends of a session say to each other.

use lighthaul_io::fs::version::Look;
use lighthaul_transfer::filter::{Ending, FilesFrom, Rules, Verdict, Written};
use lighthaul_transfer::manifest::{pack, unpack};
use lighthaul_transfer::message::Message;
use lighthaul_transfer::receive::journal::{Subject, decode};

/// Decodes a message; what decodes encodes to something that decodes to the same.
pub fn message(octets: &[u8]) {
    if let Ok(message) = Message::decode(octets) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

/// Unpacks a piece of a manifest; what unpacks is safe, and packs to something that unpacks to the same.
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

/// Reads rules as they cross the wire, and asks them about the octets behind; what is read is the same when it
/// has crossed again, and a rule that somebody wrote decides as one that crossed.
pub fn filter(octets: &[u8]) {
    let (rules, path) = match postcard::take_from_bytes::<Rules>(octets) {
        Ok(read) => read,
        Err(_) => (Rules::default(), octets),
    };
    let crossed = postcard::to_allocvec(&rules).expect("rules have octets");
    assert_eq!(postcard::from_bytes(&crossed), Ok(rules.clone()));
    for folder in [false, true] {
        let verdict = rules.verdict(path, folder);
        assert!(!rules.is_empty() || verdict == Verdict::Take);
    }
    let half = octets.len() / 2;
    if let Ok(rules) = Rules::parse(&[Written::Exclude(octets[..half].to_vec())]) {
        rules.verdict(&octets[half..], false);
    }
}

/// Reads a list of files; nothing that is listed leads out of the source.
pub fn files_from(octets: &[u8]) {
    for ending in [Ending::Line, Ending::Nul] {
        for path in FilesFrom::new(octets, ending).flatten() {
            let names = path.split(|octet| *octet == b'/');
            assert!(!path.contains(&0), "a path has a NUL in it");
            for name in names {
                assert!(!matches!(name, b"" | b"." | b".."), "a path leads out");
            }
        }
    }
}

/// Reads the octets as a journal, and then as the records of one whose sums are right but where an octet says
/// otherwise; what is proved lies within the file.
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

/// Adds the sum that a journal has behind what begins at `from`.
fn sum(journal: &mut Vec<u8>, from: usize) {
    let sum = blake3::hash(&journal[from..]);
    journal.extend(&sum.as_bytes()[..4]);
}
