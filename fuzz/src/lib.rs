//! Bodies of the fuzz targets, one file for each area. `pair` is shared by three protocols.

pub mod base;
pub mod booking;
pub mod buckets;
pub mod circuit;
pub mod launch;
pub mod daemon;
pub mod domains;
pub mod fec;
pub mod gateway;
pub mod io;
pub mod lab;
pub mod nsi;
pub mod packing;
pub mod pair;
pub mod rbudp;
pub mod remote;
pub mod sabul;
pub mod slabs;
pub mod stargate;
pub mod stream;
pub mod stripe;
pub mod token;
pub mod transfer;
pub mod vbtp;
pub mod wrap;
