//! Floor 4: hosts in namespaces and the wide-area link between them in real time.
//!
//! - [`settings`]: a lab as people write it; [`description`]: one that can be built
//! - [`emulate`]: a lab that runs, and commands in it; [`press`]: tasks beside them; [`counters`]: what its links have seen
//! - [`plan`]: a figure to be; [`simulate`]: its numbers in virtual time; [`table`], [`plot`]: what is
//!   kept of them; [`vector`]: those of transfers that follow one; [`crowd`]: those of many flows;
//!   [`figures`]: all of them
//! - [`contest`], [`latency`], [`booking`], [`slabs`]: figures of other kinds; [`picture`]: shapes as PNG or SVG
//! - [`quantity`]: rates, sizes, times and chances as people write them
//! - [`error`]: what goes wrong

pub mod booking;
pub mod congestion;
pub mod contest;
pub mod counters;
pub mod crowd;
pub mod description;
pub mod emulate;
pub mod error;
pub mod figures;
pub mod latency;
pub mod picture;
pub mod plan;
pub mod plot;
pub mod press;
pub mod quantity;
pub mod settings;
pub mod simulate;
pub mod slabs;
pub mod table;
pub mod vector;

mod axis;
mod canvas;
mod file;
mod icmp;
mod line;
mod netns;
mod route;
mod segment;
mod wan;
