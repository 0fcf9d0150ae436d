//! Floor 4: files. What a transfer is, from the list of its files to the verdict on each.
//!
//! - [`message`]: what the two sides of a copy say; [`send`], [`receive`]: the two roles; [`choose`]: which protocol suits a path, and
//!   [`ease`] how fast when the receiving host drops
//! - [`manifest`]: the list of entries, and [`list`]: of paths to look for; [`object`]: how parts of files lie in one; [`digest`]: the proof
//!   that both sides agree, and [`hash`]: what others want to know
//! - `crew`: the threads of a transfer, and `board`, what they show; `notes`: what is told once
//! - [`budget`]: how much one copy may hold
//! - [`options`]: what somebody wants; [`filter`]: which files of a tree are taken; [`hard_links`]: which are the same;
//!   [`names`]: which a target does not take; [`vector`]: what a circuit carries
//! - [`files`]: files where they are, listed, removed, made
//! - [`sums`]: the hashes of many files at a time
//! - [`relay`]: what is said of a copy between two others
//! - [`watch`]: what an onlooker sees

pub mod budget;
pub mod choose;
pub mod digest;
pub mod ease;
pub mod files;
pub mod filter;
pub mod hard_links;
pub mod hash;
pub mod list;
pub mod manifest;
pub mod message;
pub mod names;
pub mod object;
pub mod options;
pub mod receive;
pub mod relay;
pub mod send;
pub mod sums;
pub mod vector;
pub mod watch;

mod board;
mod crew;
mod notes;
