//! What the fuzz targets do with their octets, one file for each room.

pub mod rbudp;
pub mod transfer;
