//! Floor 4: gateways. They accept connections of unmodified programs, and carry them over a long path in slabs.
//!
//! - [`target_rules`]: targets that an egress gateway allows;
//!   `reserved`, [`local_address`]: addresses that need a rule of their own
//! - [`proxy_listeners`]: listeners for programs
//! - [`proxy_route`], [`proxy_address`]: client side of a SOCKS5 proxy
//! - [`link_thread`]: thread of one end of a link; [`link_handle`]: its handle; [`command`]: its commands
//! - `multiplexer`: all sessions of a link; `session`: one session; `session_table`, `starting_sessions`: their tables;
//!   `turn_queue`: order of service; `traffic`: bytes between sockets and slabs;
//!   `window`: flow control; `shortage`: programs that do not read; `page_pool`: memory of pages; `epoll`: ready sockets; `crc`: checksums
//! - `egress`: sessions to targets; `attempt`, `resolve`: connecting to a target; [`session_relay`]: sessions to a
//!   further gateway
//! - `splice_proxy`: sessions with near targets, which cross no link; `splice_pipe`: one direction of such a session
//! - [`cluster`]: gateways that share a channel by turns; [`address`]: gateways that share an address
//! - [`messages`]: messages between gateways; [`settings`]: settings; [`status`]: counters
//! - [`quota`]: sessions of several links; [`host_shares`]: sessions of each host
//! - `line_limit`: refusals in the log

pub mod address;
pub mod cluster;
pub mod command;
pub mod host_shares;
pub mod link_handle;
pub mod link_thread;
pub mod local_address;
pub mod messages;
pub mod proxy_address;
pub mod proxy_listeners;
pub mod proxy_route;
pub mod quota;
pub mod settings;
mod splice_proxy;
pub mod status;
pub mod target_rules;

mod attempt;
mod crc;
mod egress;
mod epoll;
mod line_limit;
mod multiplexer;
mod page_pool;
mod reserved;
mod resolve;
mod session;
pub mod session_relay;
mod session_table;
mod shortage;
mod splice_pipe;
mod starting_sessions;
mod traffic;
mod turn_queue;
mod window;
