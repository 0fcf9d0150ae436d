//! Control socket of a service: a Unix socket for programs of the same user on this host.
//!
//! ```text
//!  client: one line with a question ---> service: checks the user, asks the thread of the machine
//!  client <--- one line with the answer, once it is known
//! ```
//!
//! Lines are JSON objects with the version of the protocol. A client that leaves before its path is committed gets
//! none: the service releases the request.
//!
//! - [`message`]: questions and answers; [`view`]: a domain, its links and its paths as data; [`path_id`]: IDs of paths
//! - [`problem`]: reasons for which there is no answer; [`endpoint`]: names of end points
//! - [`server`]: the socket; `caller`: one question; `place`: limits of callers; [`client`]: a question to a running
//!   service

mod caller;
pub mod client;
pub mod endpoint;
pub mod message;
pub mod path_id;
mod place;
pub mod problem;
pub mod server;
pub mod view;

pub use caller::WAITING_MAX;
pub use client::ask;
pub use endpoint::Endpoint;
pub use message::{Answer, PathRequest, Question};
pub use path_id::PathId;
pub use problem::{ControlError, Problem};
pub use server::ControlSocket;
pub use view::{
    HopView, LinkView, LostLegView, NeighborView, NowView, PathView, StatusView, StepView,
};
