//! The grammar of the commands about keys, tokens and rights.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lighthaul_base::duration;
use lighthaul_booking::books::Role;

use crate::grammar::reach::KeyFile;

#[derive(Args, Debug)]
pub(crate) struct Key {
    /// The key that `serve` uses
    #[arg(long)]
    pub(crate) host: bool,
    #[command(flatten)]
    pub(crate) key: KeyFile,
}

#[derive(Args, Debug)]
pub(crate) struct Allow {
    /// The key, as its holder's `lighthaul key` prints it
    pub(crate) key: String,
    /// Name of the key's holder
    #[arg(default_value = "")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) rights: Granted,
    /// The file that lists the keys that may call
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_ALLOWED")]
    pub(crate) allowed: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Deny {
    /// The key, as its holder's `lighthaul key` prints it
    pub(crate) key: String,
    /// Why, for those who read the file
    #[arg(default_value = "")]
    pub(crate) why: String,
    /// The file that lists the keys that may call
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_ALLOWED")]
    pub(crate) allowed: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Token {
    /// Name of the token's holder
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) rights: Granted,
    /// The file that lists the tokens whose bearers may call
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
    /// For this host's scheduler rather than its daemon: user, operator or admin
    #[arg(long, conflicts_with_all = ["root", "read_only", "owners", "special", "gateway"])]
    pub(crate) role: Option<Role>,
}

#[derive(Args, Debug)]
pub(crate) struct Sign {
    /// The key, as its holder's `lighthaul key` prints it
    pub(crate) subject: String,
    /// Name of the key's holder
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) rights: Granted,
    #[command(flatten)]
    pub(crate) key: KeyFile,
}

/// Rights of a caller.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Granted {
    /// The folder that is the whole world to them; a relative one is beneath that of `serve`
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<String>,
    /// They may fetch files, and leave none
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let them give files to other users and groups
    #[arg(long)]
    pub(crate) owners: bool,
    /// Let them set set-ID and sticky bits and security.* and trusted.* attributes, and replace and remove devices,
    /// FIFOs and sockets; with --owners that is as good as root
    #[arg(long)]
    pub(crate) special: bool,
    /// They may send sessions of programs through the gateway here
    #[arg(long)]
    pub(crate) gateway: bool,
    /// Until when, from now on, as in 12h or 30d [default: for ever; what is signed ends after 30d]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) expires: Option<Duration>,
}

#[derive(Args, Debug)]
pub(crate) struct Trust {
    /// HOST or HOST:PORT
    pub(crate) host: String,
    /// The key, as `lighthaul key --host` prints it there
    pub(crate) key: String,
    /// Replace the key that is known of that host
    #[arg(long)]
    pub(crate) replace: bool,
}
