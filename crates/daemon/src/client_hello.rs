//! Recognition of a TLS `ClientHello`, before any resources are spent on a connection.

/// Kind of the first octets of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientHello {
    /// Incomplete `ClientHello`; the number is the total length in octets at which the next check is useful.
    Part(usize),
    /// Whole `ClientHello`.
    Whole,
    /// Data of another protocol.
    Foreign,
}

impl ClientHello {
    /// Octets that contain the length of a `ClientHello`: record header and message type (RFC 8446, sections 4 and
    /// 5.1).
    pub const HEAD: usize = 6;
    /// Maximum length of a `ClientHello` with its header.
    pub const LEN_MAX: usize = 4 << 10;

    /// Classifies the first octets of a connection.
    pub fn of(octets: &[u8]) -> Self {
        let start = [HANDSHAKE, LEGACY_MAJOR];
        let known = octets.len().min(start.len());
        if octets[..known] != start[..known] {
            return Self::Foreign;
        }
        let [_, _, _, high, low, kind, ..] = *octets else {
            return Self::Part(Self::HEAD);
        };
        let len = Self::HEAD - 1 + usize::from(u16::from_be_bytes([high, low]));
        if kind != CLIENT_HELLO || !(Self::HEAD..=Self::LEN_MAX).contains(&len) {
            Self::Foreign
        } else if octets.len() < len {
            Self::Part(len)
        } else {
            Self::Whole
        }
    }
}

const HANDSHAKE: u8 = 22;
const LEGACY_MAJOR: u8 = 3;
const CLIENT_HELLO: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_client_hello_is_distinguished_from_incomplete_and_other_data() {
        let mut hello = vec![22, 3, 1, 0, 200, 1];
        for len in 0..6 {
            assert_eq!(ClientHello::of(&hello[..len]), ClientHello::Part(6));
        }
        assert_eq!(ClientHello::of(&hello), ClientHello::Part(205));
        hello.resize(205, 0);
        assert_eq!(ClientHello::of(&hello), ClientHello::Whole);
        for foreign in [
            &b"GET / HTTP/1.1"[..],
            b"SSH-2.0",
            &[22, 2],
            &[22, 3, 1, 0, 200, 2],
        ] {
            assert_eq!(ClientHello::of(foreign), ClientHello::Foreign);
        }
        // longer than the maximum, and empty
        assert_eq!(
            ClientHello::of(&[22, 3, 1, 0x40, 0, 1]),
            ClientHello::Foreign
        );
        assert_eq!(ClientHello::of(&[22, 3, 1, 0, 0, 1]), ClientHello::Foreign);
    }

    proptest! {
        #[test]
        fn expected_length_grows_and_is_bounded(octets: Vec<u8>) {
            if let ClientHello::Part(len) = ClientHello::of(&octets) {
                prop_assert!(len > octets.len() && len <= ClientHello::LEN_MAX);
            }
        }
    }
}
