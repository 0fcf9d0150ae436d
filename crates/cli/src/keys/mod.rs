//! Keys, tokens and rights.

pub(crate) mod credential;
