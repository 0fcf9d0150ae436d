//! Floor 3: sessions of two hosts that know each other, whatever they speak of.
//!
//! - [`session`]: the connection; [`secrets`]: what both ends derive from it; [`credential`]: what vouches for a caller
//! - [`topic`]: what messages a session may carry; [`message`]: its own, beneath all topics
//! - [`door`]: how a side comes by sockets; [`path`]: what passes between two hosts; [`join`]: further connections
//! - [`protocol`]: what may move an object, and [`choose`]: which suits a path; [`offer`]: with what parameters, over which lanes; [`machine`]: the two machines
//! - [`probe`], [`measure`]: what a path and its hosts can do; [`checkup`]: what stands between two hosts
//! - [`alive`]: signs of life; [`sentence`]: what a peer says, made harmless; [`error`]: why a session failed

pub mod alive;
pub mod checkup;
pub mod choose;
pub mod credential;
pub mod door;
pub mod error;
pub mod join;
pub mod machine;
pub mod measure;
pub mod message;
pub mod offer;
pub mod path;
pub mod probe;
pub mod protocol;
pub mod secrets;
pub mod sentence;
pub mod session;
pub mod topic;
