//! Generators of octets that the fuzz targets read as plausible calls, with an occasional invalid one.

pub mod slabs;
pub mod token;
