//! Options for reaching another host.

use std::path::PathBuf;

use clap::Args;
use lighthaul_base::PortRange;
use lighthaul_gateway::proxy_address::ProxyAddress;

use crate::secret::Secret;

/// Options of the connection to the other host.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
pub struct RemoteArgs {
    /// ssh command and its options
    #[arg(
        short = 'e',
        long,
        value_name = "COMMAND",
        default_value = "ssh",
        env = "LIGHTHAUL_SSH"
    )]
    pub ssh: String,
    /// Program to start on the other host, for HOST:PATH
    #[arg(
        long,
        default_value = "lighthaul",
        value_name = "PROGRAM",
        env = "LIGHTHAUL_REMOTE",
        hide_short_help = true
    )]
    pub remote: String,
    /// Put a copy of this program on the other host if it has none
    ///
    /// For HOST:PATH: the copy goes below `~/.cache/lighthaul` (`XDG_CACHE_HOME`) there, and later commands find it.
    /// Without this option the command asks first, if there is a terminal.
    #[arg(long, env = "LIGHTHAUL_INSTALL", hide_short_help = true)]
    pub install: bool,
    /// Ports that the other host's firewall lets pass, as in 5000-5009
    ///
    /// For HOST:PATH: the program that ssh starts there listens on one of them, for TCP and UDP. Where all are closed,
    /// the data goes through ssh.
    #[arg(
        long,
        value_name = "FROM-TO",
        env = "LIGHTHAUL_PORT_RANGE",
        hide_short_help = true
    )]
    pub port_range: Option<PortRange>,
    #[command(flatten)]
    pub through: GatewayArgs,
    #[command(flatten)]
    pub far: DaemonArgs,
}

/// Gateway on the path to the other host.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
pub struct GatewayArgs {
    /// Connect through this gateway, as in 127.0.0.1:1080
    ///
    /// The gateway accepts SOCKS5 at this address. Data crosses by TCP, since no datagram passes a gateway. If the
    /// gateway asks for a password, write NAME:PASSWORD@HOST:PORT, preferably in `LIGHTHAUL_GATEWAY`, which other users
    /// of this host cannot read.
    #[arg(
        long,
        value_name = "ADDR",
        env = "LIGHTHAUL_GATEWAY",
        value_parser = Secret::<ProxyAddress>::new(),
        hide_env_values = true
    )]
    pub gateway: Option<ProxyAddress>,
}

impl GatewayArgs {
    /// Returns true if a gateway was given.
    pub const fn is_any(&self) -> bool {
        self.gateway.is_some()
    }
}

/// Identity of a daemon, and credentials for it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
pub struct DaemonArgs {
    /// Require this key of the daemon (sha256:...)
    ///
    /// Without it, the key must be the one in `known_hosts`. The key of a daemon that is not listed yet is added there.
    #[arg(
        long,
        value_name = "KEY",
        env = "LIGHTHAUL_PIN",
        hide_short_help = true
    )]
    pub pin: Option<String>,
    /// Refuse a daemon whose key is not in `known_hosts`
    ///
    /// Without it, the key of a daemon that is not listed yet is added there.
    #[arg(long, env = "LIGHTHAUL_STRICT", hide_short_help = true)]
    pub strict: bool,
    /// File with the token for the daemon
    ///
    /// `LIGHTHAUL_TOKEN` may hold the token itself.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_TOKEN_FILE",
        hide_short_help = true
    )]
    pub token_file: Option<PathBuf>,
    /// File with the statement of an authority [default: `statement` beside the key]
    ///
    /// The statement grants rights to this user's key, see `lighthaul sign`.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_STATEMENT",
        hide_short_help = true
    )]
    pub statement: Option<PathBuf>,
    #[command(flatten)]
    pub key: KeyArgs,
}

/// Private key of this side.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
pub struct KeyArgs {
    /// Private key, created if missing [default: ~/.config/lighthaul/key]
    ///
    /// A service uses `/etc/lighthaul/host_key` if root runs it, and `~/.config/lighthaul/host_key` otherwise.
    #[arg(
        long = "key",
        value_name = "FILE",
        env = "LIGHTHAUL_KEY",
        hide_short_help = true
    )]
    pub path: Option<PathBuf>,
}
