//! The real world's decoders: frames, fingerprints, probes, what files have.

use lighthaul_io::control::parse;
use lighthaul_io::identity::Fingerprint;
use lighthaul_io::metadata::Extras;
use lighthaul_io::probe::{LENGTHS, Prober};
use lighthaul_io::seal::{Cipher, Key};

/// Cuts octets into frames; each is what its own octets alone say, and less than those say nothing.
pub fn frame(octets: &[u8]) {
    let mut rest = octets;
    while let Ok(Some((number, frame, len))) = parse(rest) {
        assert!(frame.head_len <= frame.octets.len() && frame.octets.len() < len);
        assert!(rest[..len].ends_with(&frame.octets));
        let alone = parse(&rest[..len]).expect("it is the same frame");
        assert_eq!(alone, Some((number, frame, len)));
        assert!(
            matches!(parse(&rest[..len - 1]), Ok(None)),
            "a part is a whole"
        );
        rest = &rest[len..];
    }
}

/// Reads a fingerprint that somebody wrote; what is read is written in a way that reads the same.
pub fn fingerprint(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    if let Ok(print) = text.parse::<Fingerprint>() {
        assert_eq!(print.to_string().parse(), Ok(print));
    }
}

/// Looks at a datagram that came to the shared port; nobody without the key can make one that passes.
pub fn probe(octets: &[u8]) {
    let key = || Key::new(Cipher::preferred(), &[7; 32]);
    let prober = Prober::new(CONNECTION, CONNECTION + 1, key(), key());
    let mut octets = octets.to_vec();
    assert_eq!(prober.recognise(&mut octets), None);
    let mark = CONNECTION.to_be_bytes();
    let len = octets.len().min(mark.len());
    octets[..len].copy_from_slice(&mark[..len]);
    octets.resize(octets.len().min(LENGTHS[LENGTHS.len() - 1]), 0);
    assert_eq!(prober.recognise(&mut octets), None);
}

/// Reads what a file has besides its bytes; what is read is within bounds, and the same when it has crossed again.
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

/// What marks the probes of a session.
const CONNECTION: u64 = 0x6c68_0000_0000_0001;
