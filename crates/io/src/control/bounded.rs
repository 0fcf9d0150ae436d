//! Bounds of lists and texts that a peer sends, checked where they are decoded.
//!
//! A million empty items are a message of one megabyte, and many megabytes in memory. So each list,
//! text and row of octets of a message has a bound of its own. A field names it:
//!
//! ```text
//! #[serde(deserialize_with = "bounded::list::<PIECES_MAX, _, _>")]
//! pieces: Vec<Piece>,
//! ```
//!
//! A list is refused at its count, before its items are decoded. [`decode`] keeps the reason, which formats may lose.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

thread_local! {
    /// Bound that the present decoding in this thread has exceeded.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `decode`. Fails with the bound that it exceeded, or with nothing if it failed for another reason.
pub fn decode<T, E>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, Option<String>> {
    REFUSED.take();
    decode().map_err(|_| REFUSED.take())
}

/// List of at most `MAX` items.
#[derive(Debug)]
pub struct List<const MAX: usize, T>(pub Vec<T>);

/// Text of at most `MAX` octets.
#[derive(Debug)]
pub struct Text<const MAX: usize>(pub String);

impl<'a, const MAX: usize, T: Deserialize<'a>> Deserialize<'a> for List<MAX, T> {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let items = Items::<MAX, T>(PhantomData);
        from.deserialize_seq(items).map(Self)
    }
}

impl<'a, const MAX: usize> Deserialize<'a> for Text<MAX> {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.len() > MAX {
            let len = text.len();
            return Err(refused(&format!("a text of {len} octets"), MAX));
        }
        Ok(Self(text))
    }
}

/// Visitor of the items of a [`List`].
struct Items<const MAX: usize, T>(PhantomData<T>);

impl<'a, const MAX: usize, T: Deserialize<'a>> Visitor<'a> for Items<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX} items")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let announced = from.size_hint().unwrap_or_default();
        let check = |count: usize| {
            let text = || refused(&format!("a list of {count} items"), MAX);
            if count > MAX { Err(text()) } else { Ok(()) }
        };
        check(announced)?;
        let mut items = Vec::with_capacity(announced.min(AHEAD_BYTES / size_of::<T>().max(1)));
        while let Some(item) = from.next_element()? {
            check(items.len() + 1)?;
            items.push(item);
        }
        Ok(items)
    }
}

fn refused<E: Error>(what: &str, most: usize) -> E {
    let text = format!("{what} (maximum {most})");
    REFUSED.set(Some(text.clone()));
    E::custom(text)
}

/// Decodes a list of at most `MAX` items.
pub fn list<'a, const MAX: usize, T: Deserialize<'a>, D: Deserializer<'a>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    List::<MAX, T>::deserialize(from).map(|list| list.0)
}

/// Decodes an optional list of at most `MAX` items.
pub fn option_list<'a, const MAX: usize, T: Deserialize<'a>, D: Deserializer<'a>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list = Option::<List<MAX, T>>::deserialize(from)?;
    Ok(list.map(|list| list.0))
}

/// Decodes at most `COUNT` rows of at most `MAX` octets.
pub fn rows<'a, const COUNT: usize, const MAX: usize, D: Deserializer<'a>>(
    from: D,
) -> Result<Vec<Vec<u8>>, D::Error> {
    let rows = List::<COUNT, List<MAX, u8>>::deserialize(from)?;
    Ok(rows.0.into_iter().map(|row| row.0).collect())
}

/// Decodes a text of at most `MAX` octets.
pub fn text<'a, const MAX: usize, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    Text::<MAX>::deserialize(from).map(|text| text.0)
}

/// Decodes an optional text of at most `MAX` octets.
pub fn option_text<'a, const MAX: usize, D: Deserializer<'a>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<Text<MAX>>::deserialize(from)?;
    Ok(text.map(|text| text.0))
}

/// Decodes at most `COUNT` texts of at most `MAX` octets.
pub fn texts<'a, const COUNT: usize, const MAX: usize, D: Deserializer<'a>>(
    from: D,
) -> Result<Vec<String>, D::Error> {
    let texts = List::<COUNT, Text<MAX>>::deserialize(from)?;
    Ok(texts.0.into_iter().map(|text| text.0).collect())
}

/// Bytes that are allocated for items before they are decoded: the items may be missing.
const AHEAD_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Numbers(#[serde(deserialize_with = "list::<3, _, _>")] Vec<u16>);

    fn read(octets: &[u8]) -> Result<Numbers, Option<String>> {
        decode(|| postcard::from_bytes(octets))
    }

    #[test]
    fn too_long_list_is_refused_before_its_items() {
        assert_eq!(read(&[3, 1, 2, 3]), Ok(Numbers(vec![1, 2, 3])));
        let why = read(&[4, 255, 255, 255, 255]).unwrap_err().unwrap();
        assert_eq!(why, "a list of 4 items (maximum 3)");
        // A malformed item is not a fault of bounds.
        assert_eq!(read(&[3, 255, 255, 255]), Err(None));
    }

    #[test]
    fn rows_and_texts_are_bounded_twice() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Both(
            #[serde(deserialize_with = "rows::<2, 3, _>")] Vec<Vec<u8>>,
            #[serde(deserialize_with = "texts::<2, 3, _>")] Vec<String>,
        );
        let both = |rows: &[&[u8]], texts: &[&str]| {
            let octets = postcard::to_allocvec(&(rows, texts)).unwrap();
            decode(|| postcard::from_bytes::<Both>(&octets))
        };
        let good = Both(vec![vec![1, 2, 3], vec![]], vec!["abc".into()]);
        assert_eq!(both(&[&[1, 2, 3], &[]], &["abc"]), Ok(good));
        for (rows, texts, expected) in [
            (&[&[0; 4][..]][..], &[][..], "a list of 4 items"),
            (&[&[][..]; 3], &[], "a list of 3 items"),
            (&[], &["abcd"], "a text of 4 octets"),
            (&[], &[""; 3], "a list of 3 items"),
        ] {
            let why = both(rows, texts).unwrap_err().unwrap();
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
