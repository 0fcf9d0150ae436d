//! Floor 3: gateways, which take in what unmodified programs send, and carry it over a long path for them.
//!
//! - [`target`]: where a program wants to go; [`allowed`]: where an egress lets it go; `reserved`: addresses that take a rule of their own, [`own`]: such as those of this host
//! - [`capture`]: how programs get in that know nothing of gateways; [`door`]: where they do;
//!   [`passage`]: how those do that know of them, [`entrance`]: and of where
//! - [`mod@line`]: one end of a link; [`link_thread`]: the thread that has it; [`call`]: what that is asked for
//! - `multiplexer`: all sessions of a link; `traffic`: their bytes between sockets and slabs; `window`: how far they may be ahead; `session`: one of them
//! - `egress`: sessions whose targets are called here; `attempt`, `resolve`: how; `bond`: sessions that go on to a further gateway; `poll`: which sockets are ready; `pool`: where pages lie
//! - `streamer`: sessions with targets nearby, which cross no link; `conduit`: one direction of such a session
//! - [`cluster`]: gateways that share one channel, each in its turn; [`address`]: and one address
//! - [`kernel`]: how it is told what to do with packets for others
//! - [`word`]: what gateways say to each other; [`settings`]: what they are told; [`status`]: what they count
//! - [`quota`]: leave to have sessions; [`shares`]: how many of them each host may have
//! - [`prefix`], [`ports`]: addresses and ports that belong together

pub mod address;
pub mod capture;
pub mod cluster;
pub mod command;
pub mod host_shares;
pub mod kernel;
pub mod link_handle;
pub mod link_thread;
pub mod local_address;
pub mod messages;
pub mod ports;
pub mod prefix;
pub mod proxy_address;
pub mod proxy_listeners;
pub mod proxy_route;
pub mod quota;
pub mod settings;
mod splice_proxy;
pub mod status;
pub mod target;
pub mod target_rules;

mod attempt;
mod crc;
mod egress;
mod epoll;
mod multiplexer;
mod page_pool;
mod reserved;
mod resolve;
mod session;
pub mod session_relay;
mod splice_pipe;
mod traffic;
mod window;
