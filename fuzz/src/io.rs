//! Decoders of the I/O crate: frames, fingerprints, probes, metadata of files.

use lighthaul_fs::metadata::Extras;
use lighthaul_io::control::{Assembly, Frame};
use lighthaul_io::crypto::cipher::Cipher;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::crypto::seal::Key;
use lighthaul_io::crypto::tls::Record;
use lighthaul_io::net::probe::{LENGTHS, Prober};

/// Decodes frames from octets. The split of the octets makes no difference. Without the key, no
/// encrypted frame is accepted.
pub fn frame(octets: &[u8]) {
    let whole = frames(octets, octets.len().max(1), None);
    for (_, frame) in &whole {
        assert!(frame.head_len <= frame.octets.len());
    }
    assert_eq!(whole, frames(octets, 1, None), "one octet at a time");
    assert_eq!(whole, frames(octets, 7, None), "seven at a time");
    let key = || Some(Key::new(Cipher::preferred(), &[7; 32]));
    assert_eq!(frames(octets, octets.len().max(1), key()), []);
    assert_eq!(frames(octets, 7, key()), []);
}

/// Returns the frames in `octets`, which arrive in parts of `part` octets, up to the first invalid
/// one.
fn frames(octets: &[u8], part: usize, open: Option<Key>) -> Vec<(u16, Frame)> {
    let mut assembly = Assembly::default();
    assembly.unseal(open);
    let mut frames = Vec::new();
    for mut part in octets.chunks(part) {
        while !part.is_empty() {
            let Ok((taken, frame)) = assembly.take(part, 1 << 20) else {
                return frames;
            };
            assert!(taken > 0, "the decoder makes progress");
            part = &part[taken..];
            frames.extend(frame);
            assert!(assembly.waiting() <= octets.len(), "no more than arrived");
        }
    }
    frames
}

/// Reads a fingerprint of a user. What was read stays the same when it is written and read again.
pub fn fingerprint(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    if let Ok(print) = text.parse::<Fingerprint>() {
        assert_eq!(print.to_string().parse(), Ok(print));
    }
}

/// Reads a datagram at the shared port. Without the key, no datagram is accepted.
pub fn probe(octets: &[u8]) {
    let key = || Key::new(Cipher::preferred(), &[7; 32]);
    let prober = Prober::new(CONNECTION, CONNECTION + 1, key(), key());
    let mut octets = octets.to_vec();
    assert_eq!(prober.recognize(&mut octets), None);
    let mark = CONNECTION.to_be_bytes();
    let len = octets.len().min(mark.len());
    octets[..len].copy_from_slice(&mark[..len]);
    octets.resize(octets.len().min(LENGTHS[LENGTHS.len() - 1]), 0);
    assert_eq!(prober.recognize(&mut octets), None);
}

/// Reads the metadata of a file. What was read is within bounds, and stays the same when it is
/// encoded and decoded again.
pub fn extras(octets: &[u8]) {
    if let Ok(extras) = postcard::from_bytes::<Extras>(octets) {
        let attributes = extras.xattrs.iter();
        let total: usize = attributes
            .map(|(name, value)| name.len() + value.len())
            .sum();
        assert!(total <= Extras::OCTETS_MAX && extras.xattrs.len() <= Extras::COUNT_MAX);
        let crossed = postcard::to_allocvec(&extras).expect("extras have octets");
        assert_eq!(postcard::from_bytes(&crossed), Ok(extras));
    }
}

/// Follows records of TLS, which may arrive in any pieces. Their ends are where their lengths say.
pub fn record(octets: &[u8]) {
    let (mut record, mut taken) = (Record::default(), 0);
    let mut step = 1;
    while taken < octets.len() {
        let wants = record.wants();
        assert!(wants > 0 && u16::try_from(wants).is_ok());
        let len = wants.min(octets.len() - taken).min(step);
        record.take(&octets[taken..taken + len]);
        taken += len;
        step = step % 7 + 1;
    }
    let mut end = 0;
    while let Some([_, _, _, high, low]) = octets.get(end..end + 5) {
        end += 5 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    let left = if end > octets.len() {
        end - octets.len()
    } else {
        5 - (octets.len() - end)
    };
    assert_eq!(record.wants(), left);
}

/// Number of a connection in the probes of a session.
const CONNECTION: u64 = 0x6c68_0000_0000_0001;
