//! The grammar of the commands about keys, tokens and rights.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lighthaul_base::duration;
use lighthaul_booking_client::role::Role;

use crate::reach::KeyArgs;

/// Print the fingerprint of this user's key, or of the daemon's
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul key
  sudo lighthaul key --host")]
pub struct Key {
    /// Print the key of the daemon on this host
    #[arg(long, help_heading = "Selection")]
    pub host: bool,
    #[command(flatten)]
    pub key: KeyArgs,
}

/// Allow a key to copy to and from this host
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul allow sha256:4mFf...Q alice
  lighthaul allow sha256:4mFf...Q alice --root shared --read-only --expires 30d")]
pub struct Allow {
    /// Key that `lighthaul key` prints for its owner
    pub key: String,
    /// Name of the owner
    #[arg(default_value = "", hide_default_value = true)]
    pub name: String,
    #[command(flatten)]
    pub rights: RightsArgs,
    #[command(flatten)]
    pub list: KeyListArgs,
}

/// Refuse a key, even if an authority signed a statement for it
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul deny sha256:4mFf...Q 'laptop was stolen'")]
pub struct Deny {
    /// Key that `lighthaul key` prints for its owner
    pub key: String,
    /// Reason, for readers of the list
    #[arg(default_value = "", hide_default_value = true)]
    pub why: String,
    #[command(flatten)]
    pub list: KeyListArgs,
}

/// Create a token that lets its bearer copy to and from this host
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul token robot --root alice --expires 30d > token
  lighthaul token alice --role user")]
pub struct Token {
    /// Name of the token's owner
    pub name: String,
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Create a token for the scheduler, with this role: user, operator or admin
    #[arg(long, conflicts_with_all = ["root", "read_only", "owners", "special", "gateway"], help_heading = "Access")]
    pub role: Option<Role>,
    /// List of tokens to change [default: `tokens`]
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_TOKENS",
        help_heading = "Advanced"
    )]
    pub tokens: Option<PathBuf>,
}

/// Sign a statement that grants rights to a key
///
/// Daemons whose list of keys has this user's key as an authority admit the key.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul sign sha256:4mFf...Q alice --root alice > statement")]
#[command(mut_arg("expires", |arg| arg.help("Expire after this long, as in 12h [default: 30d]")))]
pub struct Sign {
    /// Key that `lighthaul key` prints for its owner
    pub subject: String,
    /// Name of the owner
    pub name: String,
    #[command(flatten)]
    pub rights: RightsArgs,
    #[command(flatten)]
    pub key: KeyArgs,
}

/// List of keys that a command changes.
#[derive(Args, Debug)]
pub struct KeyListArgs {
    /// List of keys to change [default: `allowed_keys`]
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_ALLOWED",
        help_heading = "Advanced"
    )]
    pub allowed: Option<PathBuf>,
}

/// Rights of a client.
#[derive(Args, Debug)]
#[command(next_help_heading = "Access")]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct RightsArgs {
    /// Root directory, relative to that of `serve`
    #[arg(long, value_name = "DIR")]
    pub root: Option<String>,
    /// Allow reading only
    #[arg(long)]
    pub read_only: bool,
    /// Allow setting the owner and the group of files
    #[arg(long)]
    pub owners: bool,
    /// Allow set-ID bits and special files
    ///
    /// These are set-ID and sticky bits, security.* and trusted.* attributes, and the replacement and removal of
    /// devices, FIFOs and sockets. Together with --owners it is equivalent to root.
    #[arg(long)]
    pub special: bool,
    /// Allow connections through the gateway of this host
    #[arg(long)]
    pub gateway: bool,
    /// Expire after this long, as in 12h or 30d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub expires: Option<Duration>,
}

/// Trust the key of a daemon
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul trust far.example.org sha256:4mFf...Q")]
pub struct Trust {
    /// HOST or HOST:PORT
    pub host: String,
    /// Key, as `lighthaul key --host` prints it on HOST
    pub key: String,
    /// Replace the known key of the host
    #[arg(long, help_heading = "Access")]
    pub replace: bool,
}
