//! Page of the guide whose code blocks compile as documentation tests.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/library.md")]
pub struct Guide;
