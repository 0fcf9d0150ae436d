//! Delta transfer: finds the parts of a changed file that an old version of it, the basis, has.
//!
//! ```text
//! receiver: basis  --> sums of its blocks ------------------> sender
//! sender:   source --> parts in the basis, with a digest of the sender's bytes --> receiver
//!                  --> parts that are missing: they are sent like new data
//! ```
//!
//! - [`summer`]: sums of blocks; [`index`]: blocks by their sums; [`scan`]: the search
//! - [`parts`]: its results, in few parts; `window`: bytes around its position
pub mod index;
pub mod parts;
pub mod scan;
pub mod summer;

mod window;

#[cfg(test)]
mod tests;
