//! Encoding of rtnetlink messages about traffic control.
//!
//! A `Message` is built from a `Subject` and attributes, and a `Reply` is decoded from received octets. Numbers have
//! the byte order of the host. Decoding never panics: an item that does not fit ends its list.
//!
//! ```text
//! struct nlmsghdr (16) | struct tcmsg (20) | attribute (4 + value, padded to 4) | ...
//! ```

/// Object of a message: `struct tcmsg` of rtnetlink(7) without its family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Index of the interface.
    pub index: u32,
    /// Handle of the discipline, class or filter.
    pub handle: u32,
    /// Parent.
    pub parent: u32,
    /// Priority and protocol of a filter; discipline of a class.
    pub info: u32,
}

/// Message to the kernel.
#[derive(Clone, Debug)]
pub struct Message {
    octets: Vec<u8>,
}

impl Message {
    /// Creates a message of this kind without attributes.
    pub fn new(kind: u16, flags: u16, subject: Subject) -> Self {
        let mut octets = vec![0; HEAD];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        // the family and three unused octets
        octets.extend([0; 4]);
        let numbers = [subject.index, subject.handle, subject.parent, subject.info];
        octets.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        Self { octets }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let len = (ATTRIBUTE + value.len()) as u16;
        self.octets.extend(len.to_ne_bytes());
        self.octets.extend(kind.to_ne_bytes());
        self.octets.extend(value);
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a text attribute.
    #[must_use]
    pub fn with_text(self, kind: u16, text: &str) -> Self {
        self.with(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute that contains the attributes of `inner`.
    #[must_use]
    pub fn with_nest(mut self, kind: u16, inner: impl FnOnce(Self) -> Self) -> Self {
        let start = self.octets.len();
        self = inner(self.with(kind, &[]));
        let len = (self.octets.len() - start) as u16;
        self.octets[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self
    }

    /// Encodes the message with its length and the sequence number `number`.
    pub fn octets(&self, number: u32) -> Vec<u8> {
        let mut octets = self.octets.clone();
        let len = octets.len() as u32;
        octets[0..4].copy_from_slice(&len.to_ne_bytes());
        octets[8..12].copy_from_slice(&number.to_ne_bytes());
        octets
    }
}

/// Message from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Kind of the message.
    pub kind: u16,
    /// Flags of the message.
    pub flags: u16,
    /// Number of the answered request.
    pub number: u32,
    /// Octets after the header.
    pub body: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Splits received octets into messages.
    pub fn all(mut octets: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let len = word(octets, 0)? as usize;
            let body = octets.get(HEAD..len)?;
            let number = word(octets, 8)?;
            let (kind, flags) = (half(octets, 4)?, half(octets, 6)?);
            octets = octets.get(len.next_multiple_of(4)..).unwrap_or_default();
            let reply = Self {
                kind,
                flags,
                number,
                body,
            };
            Some(reply)
        })
    }

    /// Returns the error number; zero is success.
    pub fn error(&self) -> i32 {
        word(self.body, 0).map_or(0, u32::cast_signed)
    }

    /// Returns the object.
    pub fn subject(&self) -> Option<Subject> {
        Some(Subject {
            index: word(self.body, 4)?,
            handle: word(self.body, 8)?,
            parent: word(self.body, 12)?,
            info: word(self.body, 16)?,
        })
    }

    /// Returns the attributes.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes(self.body.get(SUBJECT..).unwrap_or_default())
    }
}

/// Sequence of attributes.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Returns the value of the first attribute of this kind.
    pub fn find(self, kind: u16) -> Option<&'a [u8]> {
        let mut octets = self.0;
        loop {
            let len = usize::from(half(octets, 0)?);
            // the two highest bits of the kind are flags
            let found = half(octets, 2)? & 0x3fff;
            let value = octets.get(ATTRIBUTE..len)?;
            if found == kind {
                return Some(value);
            }
            octets = octets.get(len.next_multiple_of(4)..)?;
        }
    }

    /// Returns the attributes in the first attribute of this kind.
    pub fn nest(self, kind: u16) -> Option<Self> {
        self.find(kind).map(Self)
    }

    /// Returns the text of the first attribute of this kind.
    pub fn text(self, kind: u16) -> Option<&'a str> {
        let octets = self.find(kind)?;
        let octets = octets.strip_suffix(&[0]).unwrap_or(octets);
        std::str::from_utf8(octets).ok()
    }
}

/// Decodes the 32-bit number at `at`.
pub fn word(octets: &[u8], at: usize) -> Option<u32> {
    let octets = octets.get(at..at + 4)?;
    octets.try_into().ok().map(u32::from_ne_bytes)
}

fn half(octets: &[u8], at: usize) -> Option<u16> {
    let octets = octets.get(at..at + 2)?;
    octets.try_into().ok().map(u16::from_ne_bytes)
}

/// Length of `struct nlmsghdr`.
const HEAD: usize = 16;
/// Length of `struct tcmsg`.
const SUBJECT: usize = 20;
/// Length of the header of an attribute.
const ATTRIBUTE: usize = 4;
const NLM_F_REQUEST: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_round_trip() {
        let subject = Subject {
            index: 1,
            handle: 2,
            parent: 3,
            info: 4,
        };
        let message = Message::new(40, 5, subject)
            .with_text(1, "htb")
            .with_nest(2, |inner| inner.with(7, &[1, 2, 3]).with(8, &[4; 5]));
        let octets = [message.octets(9), message.octets(10)].concat();
        let replies: Vec<Reply<'_>> = Reply::all(&octets).collect();
        assert_eq!(replies.len(), 2);
        assert_eq!((replies[0].kind, replies[0].flags), (40, 5 | NLM_F_REQUEST));
        assert_eq!([replies[0].number, replies[1].number], [9, 10]);
        assert_eq!(replies[1].subject(), Some(subject));
        let attributes = replies[1].attributes();
        assert_eq!(attributes.text(1), Some("htb"));
        let inner = attributes.nest(2).unwrap();
        assert_eq!(inner.find(8), Some(&[4; 5][..]));
        assert_eq!(inner.find(9), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_decoded_without_panic_or_endless_loop(octets in prop::collection::vec(prop_oneof![0_u8..24, any::<u8>()], 0..200), kind in 0_u16..20) {
            for reply in Reply::all(&octets).take(100) {
                let found = reply.attributes().nest(kind).and_then(|inner| inner.find(1));
                prop_assert!(found.is_none_or(|found| found.len() < octets.len()));
                prop_assert!(reply.subject().is_none() || reply.body.len() >= SUBJECT);
            }
        }
    }
}
