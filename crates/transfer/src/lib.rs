//! Floor 3: files. What a transfer is, from the list of its files to the verdict on each.
//!
//! - [`session`]: two ends that know each other; [`message`]: what they say; [`path`]: what lies between
//! - [`send`], [`receive`]: the two roles; [`protocol`]: what may move an object, [`choose`]: what suits a path; [`machine`]: the two machines,
//!   [`mover`]: with what parameters, and [`ease`] how fast when the receiving host drops
//! - [`join`]: further connections of a session
//! - [`manifest`]: the list of entries, and [`list`]: of paths to look for; [`object`]: how parts of files lie in one; [`digest`]: the proof
//!   that both sides agree, and [`hash`]: what others want to know
//! - `crew`: the threads of a transfer, and `board`, what they show; `alive`: that they are there; `notes`: what is told once; `sentence`: what a
//!   peer says, made harmless
//! - [`probe`], [`measure`]: what a path and its hosts can do
//! - [`budget`]: how much one copy may hold
//! - [`options`]: what somebody wants; [`filter`]: which files of a tree are taken; [`hard_links`]: which are the same;
//!   [`names`]: which a target does not take
//! - [`checkup`]: what stands between two hosts
//! - [`files`]: files where they are, listed, removed, made
//! - [`stream`]: messages and objects that cross while they are made
//! - [`sums`]: the hashes of many files at a time
//! - [`relay`]: what is said of a copy between two others
//! - [`watch`]: what an onlooker sees; [`error`]: why it failed

pub mod budget;
pub mod checkup;
pub mod choose;
pub mod credential;
pub mod digest;
pub mod door;
pub mod ease;
pub mod error;
pub mod files;
pub mod filter;
pub mod hard_links;
pub mod hash;
pub mod join;
pub mod list;
pub mod machine;
pub mod manifest;
pub mod measure;
pub mod message;
pub mod mover;
pub mod names;
pub mod object;
pub mod options;
pub mod path;
pub mod probe;
pub mod protocol;
pub mod receive;
pub mod relay;
pub mod secrets;
pub mod send;
pub mod session;
pub mod session_message;
pub mod stream;
pub mod sums;
pub mod topic;
pub mod vector;
pub mod watch;

mod alive;
mod board;
mod crew;
mod notes;
mod sentence;
