//! Side of the programs that use remote files.
//!
//! - [`remote_files`]: all requests, for any number of threads; [`ranges`]: many ranges at once
//! - [`reader`]: an open file with `read_ahead`; `remote_file`: its handles; [`writer`]: a file that is written
//! - [`connector`]: the way to the server, which the user of this crate supplies
//! - `links`: sessions, one after the other; `link`: a session with its connections; `channel`: one connection;
//!   `answer`: the answer to a request

pub mod connector;
pub mod ranges;
pub mod reader;
pub mod remote_files;
pub mod writer;

mod answer;
mod channel;
mod link;
mod links;
mod patience;
mod read_ahead;
mod remote_file;
