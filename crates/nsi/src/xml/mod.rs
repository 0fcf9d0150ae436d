//! Reading and writing of XML documents.
//!
//! - `element`: elements of a document that was read; `writer`: writes elements

pub(crate) mod element;
pub(crate) mod writer;

pub use element::DecodeError;
