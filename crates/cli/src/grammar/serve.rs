//! The grammar of `lighthaul serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, value_parser};
use lighthaul_base::Size;

use crate::grammar::output::LogFormat;
use crate::grammar::reach::KeyFile;

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen, for TCP and UDP alike
    #[arg(long, default_value = "[::]:4810", env = "LIGHTHAUL_LISTEN")]
    pub(crate) listen: String,
    /// Serve this folder and what is below it, and nothing else; required, --root / serves the whole host
    #[arg(long, value_name = "DIR", env = "LIGHTHAUL_ROOT")]
    pub(crate) root: Option<PathBuf>,
    /// List of the keys that may call [default: `/etc/lighthaul/allowed_keys`; `~/.config/lighthaul/allowed_keys` unless root]
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_ALLOWED")]
    pub(crate) allowed: Option<PathBuf>,
    /// List of the tokens whose bearers may call [default: `tokens`, beside `allowed_keys`]
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
    /// Agree to plain packets when a client asks for them
    #[arg(long, env = "LIGHTHAUL_PLAIN")]
    pub(crate) plain: bool,
    /// Do not send files on to other daemons for clients
    #[arg(long, env = "LIGHTHAUL_NO_RELAY")]
    pub(crate) no_relay: bool,
    /// Where Prometheus may ask for /metrics over HTTP, as in 127.0.0.1:9481 [default: nowhere]
    #[arg(long, value_name = "ADDR", env = "LIGHTHAUL_METRICS_LISTEN")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// How the log on standard error is written; `LIGHTHAUL_LOG` says how much, as in `debug`
    #[arg(long, value_enum, default_value_t, env = "LIGHTHAUL_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) limits: ServeLimits,
    /// Serve one session for the key named on standard input; what ssh starts
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) key: KeyFile,
}

/// Limits on what callers may use, all together and each.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
#[expect(
    clippy::struct_field_names,
    reason = "flags are called as their fields are"
)]
pub(crate) struct ServeLimits {
    /// Run at most this many sessions at a time
    #[arg(long, value_name = "N", default_value_t = 256, env = "LIGHTHAUL_MAX_SESSIONS", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions: u32,
    /// Run at most this many sessions of one key or token
    #[arg(long, value_name = "N", default_value_t = 64, env = "LIGHTHAUL_MAX_SESSIONS_PER_KEY", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions_per_key: u32,
    /// Run at most this many sessions from one address (of IPv6, a /64)
    #[arg(long, value_name = "N", default_value_t = 192, env = "LIGHTHAUL_MAX_SESSIONS_PER_ADDRESS", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions_per_address: u32,
    /// Run at most this many sessions from one network (an IPv4 /24, an IPv6 /56 or /48)
    #[arg(long, value_name = "N", default_value_t = 224, env = "LIGHTHAUL_MAX_SESSIONS_PER_NETWORK", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions_per_network: u32,
    /// Take at most this many connections of one key for ptcp, besides one for each session
    #[arg(long, value_name = "N", default_value_t = 512, env = "LIGHTHAUL_MAX_CONNECTIONS_PER_KEY", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_connections_per_key: u32,
    /// Use at most this much memory for sessions; one key gets half
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4GiB",
        env = "LIGHTHAUL_MAX_MEMORY"
    )]
    pub(crate) max_memory: Size,
    /// Run at most this many threads for sessions; one key gets half
    #[arg(long, value_name = "N", default_value_t = 8192, env = "LIGHTHAUL_MAX_THREADS", value_parser = value_parser!(u64).range(16..))]
    pub(crate) max_threads: u64,
    /// Open at most this many files for sessions; one key gets half [default: what the system allows]
    #[arg(long, value_name = "N", env = "LIGHTHAUL_MAX_OPEN_FILES", value_parser = value_parser!(u64).range(64..))]
    pub(crate) max_open_files: Option<u64>,
}
