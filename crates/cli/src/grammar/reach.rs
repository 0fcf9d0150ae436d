//! Options for reaching another host.

use std::path::PathBuf;

use clap::Args;
use lighthaul_gateway::entrance::Entrance;

use crate::grammar::secret::Secret;

/// How the far side of a place is reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct Via {
    /// The ssh command, with options
    #[arg(short = 'e', long, default_value = "ssh", env = "LIGHTHAUL_SSH")]
    pub(crate) ssh: String,
    /// The lighthaul to start on the far side
    #[arg(
        long,
        default_value = "lighthaul",
        value_name = "PROGRAM",
        env = "LIGHTHAUL_REMOTE"
    )]
    pub(crate) remote: String,
    #[command(flatten)]
    pub(crate) through: Through,
    #[command(flatten)]
    pub(crate) far: Far,
}

/// By which gateway the far side is reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct Through {
    /// Reach the far side through this gateway and its peer, as in 127.0.0.1:1080, where it takes SOCKS5; no datagram passes there.
    /// Where it asks for a password: NAME:PASSWORD@HOST:PORT, better by the variable, which nobody else sees
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LIGHTHAUL_GATEWAY",
        value_parser = Secret::<Entrance>::new(),
        hide_env_values = true
    )]
    pub(crate) gateway: Option<Entrance>,
}

impl Through {
    /// Whether there is one.
    pub(crate) const fn is_any(&self) -> bool {
        self.gateway.is_some()
    }
}

/// How a daemon is known.
#[derive(Args, Clone, Debug)]
pub(crate) struct Far {
    /// The key that the daemon must show (sha256:...), instead of a known one
    #[arg(long, value_name = "KEY", env = "LIGHTHAUL_PIN")]
    pub(crate) pin: Option<String>,
    /// Refuse a daemon that was never called before, rather than know it from then on
    #[arg(long, env = "LIGHTHAUL_STRICT")]
    pub(crate) strict: bool,
    /// The file with the token that the daemon knows us by; or the token itself in `LIGHTHAUL_TOKEN`
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The file with what an authority signed for our key [default: `statement` beside the key]
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_STATEMENT")]
    pub(crate) statement: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: KeyFile,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct KeyFile {
    /// This side's private key, made if it is missing
    #[arg(long = "key", value_name = "FILE", env = "LIGHTHAUL_KEY")]
    pub(crate) path: Option<PathBuf>,
}
