//! The grammar of `lighthaul wrap`.

use std::ffi::OsString;
use std::str::FromStr;

use clap::Args;
use lighthaul_capture::target::Host;
use lighthaul_gateway::proxy_address::ProxyAddress;

use super::secret::Secret;

/// Run a program with its TCP connections captured by a gateway
///
/// The program is started with a library that replaces libc's `connect`, also for TCP Fast Open. Connections of
/// the program and of its children to other hosts go to the gateway by SOCKS5. The library does not capture connections
/// to this host, UDP, or name lookups.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul wrap -- curl -O http://far.example.org/run1.h5
  lighthaul wrap --socks 10.0.0.1:1080 -- globus-url-copy -p 4 src dst

Exit status: that of the command; 127 if the command does not exist; 126 if it
cannot be captured (static linking, Go, or another user's rights); 125 if the
library is missing.

Child processes are captured, independent of their environment. A child that cannot be
captured is not started. Without a gateway, connections to other hosts fail.
System calls that bypass libc are not captured: syscall(), and connect by
io_uring. To capture those, or Go programs, run the program as a separate user
behind lighthaul gateway --transparent --capture-user.

A program waits in connect() until the gateway has reached the target, at most
30 s. If --socks is an IPv6 address, programs with IPv4 sockets cannot connect.")]
pub struct Wrap {
    /// SOCKS5 address of the gateway
    ///
    /// If the gateway asks for a password, write NAME:PASSWORD@10.0.0.1:1080, preferably in `LIGHTHAUL_SOCKS`, which
    /// other users of this host cannot read.
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:1080",
        env = "LIGHTHAUL_SOCKS",
        value_parser = Secret::<Socks>::new(),
        hide_env_values = true,
        help_heading = "Network"
    )]
    pub socks: Socks,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Address of a gateway, with optional credentials, in the form that the user wrote.
#[derive(Clone, Debug)]
pub struct Socks(pub String);

impl FromStr for Socks {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let proxy = text.parse::<ProxyAddress>();
        // programs may be too young for names to be resolved when the library reads this
        if proxy.is_ok_and(|proxy| matches!(proxy.address.host, Host::Ip(_))) {
            return Ok(Self(text.to_owned()));
        }
        Err("write an address as 10.0.0.1:1080, or NAME:PASSWORD@10.0.0.1:1080")
    }
}
