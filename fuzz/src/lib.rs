//! What the fuzz targets do with their octets, one file for each room.

pub mod fec;
pub mod io;
pub mod lab;
pub mod rbudp;
pub mod stripe;
pub mod sabul;
pub mod transfer;
pub mod vbtp;
