//! Transfers: what two ends of a session say to each other.

use lighthaul_transfer::filter::{Ending, FilesFrom, Rules, Verdict, Written};
use lighthaul_transfer::manifest::{pack, unpack};
use lighthaul_transfer::message::Message;

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
