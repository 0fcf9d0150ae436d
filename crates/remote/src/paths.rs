//! Paths of files: the XDG directories for users, `/etc/lighthaul` for a host.

use std::env;
use std::path::{Path, PathBuf};

/// Returns this user's directory for configuration.
fn user_folder() -> PathBuf {
    xdg_folder("XDG_CONFIG_HOME", ".config", "/etc")
}

/// Returns this program's directory. It is below the directory that the variable `name` holds, below `usual` in the
/// home directory, or below `otherwise` without a home.
fn xdg_folder(name: &str, usual: &str, otherwise: &str) -> PathBuf {
    let from = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    from(name)
        .or_else(|| from("HOME").map(|home| home.join(usual)))
        .unwrap_or_else(|| PathBuf::from(otherwise))
        .join("lighthaul")
}

/// Returns the host's directory if this user may write to it, otherwise the user's.
fn host_folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        PathBuf::from("/etc/lighthaul")
    } else {
        user_folder()
    }
}

/// Returns the configuration files: the host's, then the user's, which overrides the host's.
pub fn configs() -> [PathBuf; 2] {
    [PathBuf::from("/etc/lighthaul"), user_folder()].map(|folder| folder.join("config.toml"))
}

/// Returns the path of the gateway's status socket: in the directory of the service manager, the system or this user.
pub fn gateway_socket() -> PathBuf {
    runtime_folder().join("gateway.sock")
}

/// Returns the path of the control socket of a domain, in the same directory.
pub fn domain_socket() -> PathBuf {
    runtime_folder().join("domain.sock")
}

fn runtime_folder() -> PathBuf {
    let set = |name| env::var_os(name).map(PathBuf::from);
    if let Some(folder) = set("RUNTIME_DIRECTORY") {
        folder
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/run/lighthaul")
    } else {
        set("XDG_RUNTIME_DIR").map_or_else(user_folder, |folder| folder.join("lighthaul"))
    }
}

/// Returns the path of the private key of this user.
pub fn user_key() -> PathBuf {
    user_folder().join("key")
}

/// Returns the path of the private key of this host's daemon.
pub fn host_key() -> PathBuf {
    host_folder().join("host_key")
}

/// Returns the path of the keys that this host's daemon accepts.
pub fn allowed_keys() -> PathBuf {
    host_folder().join("allowed_keys")
}

/// Returns the path of the tokens that this host's daemon accepts.
pub fn tokens() -> PathBuf {
    host_folder().join("tokens")
}

/// Returns the path of the tokens that this host's scheduler accepts.
pub fn scheduler_tokens() -> PathBuf {
    host_folder().join("scheduler_tokens")
}

/// Returns the path of the store of this host's scheduler.
pub fn books() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib/lighthaul/books")
    } else {
        user_folder().join("books")
    }
}

/// Returns the path of this user's queue of jobs.
pub fn jobs() -> PathBuf {
    state_file("jobs.db")
}

/// Returns the path of the samples that `lighthaul monitor` has stored.
pub fn monitor_history() -> PathBuf {
    state_file("monitor.db")
}

/// Returns the path of a file that keeps the state of this user's programs.
fn state_file(name: &str) -> PathBuf {
    if rustix::process::geteuid().is_root() {
        Path::new("/var/lib/lighthaul").join(name)
    } else {
        xdg_folder("XDG_STATE_HOME", ".local/state", "/var/lib").join(name)
    }
}

/// Returns the directory of records of uploads to object stores that a later copy resumes.
pub fn uploads() -> PathBuf {
    xdg_folder("XDG_STATE_HOME", ".local/state", "/var/lib").join("uploads")
}

/// Returns the directory of records of uploads to object stores that a daemon serves.
pub fn served_uploads() -> PathBuf {
    xdg_folder("XDG_STATE_HOME", ".local/state", "/var/lib").join("served-uploads")
}

/// Returns the path of the statement for this user's key.
pub fn statement() -> PathBuf {
    user_folder().join("statement")
}

/// Returns the path of the rates that earlier copies have measured.
pub fn known_paths() -> PathBuf {
    xdg_folder("XDG_CACHE_HOME", ".cache", "/var/cache").join("paths")
}

/// Returns the path of the list of hosts with only the port of ssh open.
pub fn closed_hosts() -> PathBuf {
    xdg_folder("XDG_CACHE_HOME", ".cache", "/var/cache").join("ssh_hosts")
}

/// Returns the path of the known keys of daemons.
pub fn known_hosts() -> PathBuf {
    user_folder().join("known_hosts")
}
