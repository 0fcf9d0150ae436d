//! Delta transfer: finds the parts of a changed file that its old version, the basis, already has.
//!
//! ```text
//! receiver: basis  --> sums of its blocks --------------------------------------> sender
//! sender:   source --> stretches: copies of the basis, with a digest, and gaps --> receiver
//! ```
//!
//! The receiver copies, and compares the digest. Gaps are sent like other data.
//!
//! - [`summer`]: sums of blocks; [`index`]: blocks by their sums; [`scan`]: the search, in a `window` of the source
//! - [`stretch`]: results of the search

pub mod index;
pub mod scan;
pub mod stretch;
pub mod summer;

mod window;

#[cfg(test)]
mod tests;
