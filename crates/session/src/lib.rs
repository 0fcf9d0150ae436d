//! Floor 3: sessions between two hosts that know each other's keys, for messages of any topic.
//!
//! - [`session`]: the connection; [`dialog`]: messages on one of its streams; [`halt`]: its end by other threads;
//!   [`secrets`]: its keys and numbers; [`credential`]: credentials of clients
//! - [`topic`]: the trait of message types; [`message`]: the session's own messages
//! - [`role`]: the role of a side; [`path`]: exploration of the path; `probe_sources`: proof of the client's addresses;
//!   [`known_path`]: rates of earlier copies; [`join`]: further connections
//! - [`protocol`]: protocols by name; [`choose`]: the protocol that suits a path; [`protocol_switch`]: its changes
//!   during a transfer; [`offer`]: parameters and lanes; [`vector`]: capacity of a circuit; [`machine`]: the machines
//!   of all protocols
//! - [`probe`], [`measure`]: measurements of a path and its hosts; [`checkup`]: checkup of a
//!   connection
//! - [`processor_wait`]: load of this host; [`keepalive`]: keepalive messages; [`peer_text`]: harmless texts of a peer;
//!   [`error`], [`fault`]: errors

pub mod checkup;
pub mod choose;
mod code;
pub mod credential;
pub mod dialog;
pub mod error;
pub mod fault;
mod file_error;
pub mod halt;
pub mod join;
pub mod keepalive;
pub mod known_path;
pub mod machine;
pub mod measure;
pub mod message;
pub mod offer;
pub mod path;
pub mod peer_text;
pub mod probe;
mod probe_sources;
pub mod processor_wait;
pub mod protocol;
pub mod protocol_switch;
pub mod role;
pub mod secrets;
pub mod session;
pub mod topic;
pub mod vector;
