//! The grammar of `lighthaul wrap`.

use std::ffi::OsString;
use std::str::FromStr;

use clap::Args;
use lighthaul_gateway::entrance::Entrance;
use lighthaul_gateway::target::Host;

use super::secret::Secret;

/// Run a program whose TCP connections go through a gateway, though it knows of none.
///
/// The program is started with a library that stands in for libc's `connect`, also for TCP Fast Open: connections to other
/// hosts go by SOCKS5 to the gateway, and so do those of its children. Connections to this host, UDP and names are left alone.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul wrap -- curl -O http://far.example.org/run1.h5
  lighthaul wrap --socks 10.0.0.1:1080 -- globus-url-copy -p 4 src dst

The status is that of the command; 127 if there is no such command, 126 if it cannot be captured
(because it is linked statically, or runs with another user's rights), and 125 if the library is
missing.

Children are captured whatever their environment; one that cannot be captured is not started, and
without a gateway connections to other hosts fail. System calls that a program makes without libc
are not captured: those of Go, syscall(), and connect by io_uring. To capture those, too, run the
program as a user of its own behind lighthaul gateway --transparent --capture-user.

A program waits in connect() until the gateway has reached the target, at most 30 s. If --socks is
an address of IPv6, programs that use sockets of IPv4 get nowhere.")]
pub(crate) struct Wrap {
    /// Where the gateway takes SOCKS5, as in 10.0.0.1:1080, or NAME:PASSWORD@10.0.0.1:1080 where it asks for a password (better
    /// by the variable, which nobody else sees)
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:1080",
        env = "LIGHTHAUL_SOCKS",
        value_parser = Secret::<Socks>::new(),
        hide_env_values = true
    )]
    pub(crate) socks: Socks,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// A gateway's address, and what it asks for if it does, as somebody wrote both.
#[derive(Clone, Debug)]
pub(crate) struct Socks(pub(crate) String);

impl FromStr for Socks {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entrance = text.parse::<Entrance>();
        // programs may be too young for names to be resolved when the library reads this
        if entrance.is_ok_and(|entrance| matches!(entrance.place.host, Host::Ip(_))) {
            return Ok(Self(text.to_owned()));
        }
        Err("write an address as 10.0.0.1:1080, or NAME:PASSWORD@10.0.0.1:1080")
    }
}
