//! Floor 3: sessions between two hosts that know each other's keys, for messages of any topic.
//!
//! - [`session`]: the connection; [`secrets`]: keys and numbers of a session; [`credential`]:
//!   credentials of clients
//! - [`topic`]: the trait of message types; [`message`]: the session's own messages
//! - [`door`]: the role of a side; [`path`]: exploration of the path; [`join`]: further connections
//! - [`protocol`]: protocols by name; [`choose`]: the protocol that suits a path; [`offer`]:
//!   parameters and lanes; [`machine`]: the machines of all protocols
//! - [`probe`], [`measure`]: measurements of a path and its hosts; [`checkup`]: checkup of a
//!   connection
//! - [`alive`]: keepalive messages; [`sentence`]: harmless texts of a peer; [`error`], [`fault`]:
//!   errors

pub mod alive;
pub mod checkup;
pub mod choose;
pub mod credential;
pub mod door;
pub mod error;
pub mod fault;
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
