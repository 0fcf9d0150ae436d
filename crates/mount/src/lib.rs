//! Floor 9: remote files as a file system of this host, by FUSE.
//!
//! Files are read with read-ahead, and written once: a new file appears on the server when it is closed or synced, and
//! can only grow after that. What close(2) or fsync(2) has acknowledged is on the disk of the server.
//!
//! - [`run`]: mounting; `served`: the mount, until a signal or umount(8)
//! - `requests`: requests of the kernel; `file_system`: their work
//! - `inodes`: numbers of paths; `open_files`: files that programs have open; `opener`: who opened them
//! - `waits`: signals that end the wait of a program; `attributes`, `replies`: answers

pub mod run;

#[cfg(feature = "fuse")]
mod attributes;
#[cfg(feature = "fuse")]
mod file_system;
#[cfg(feature = "fuse")]
mod inodes;
#[cfg(feature = "fuse")]
mod open_files;
#[cfg(feature = "fuse")]
mod opener;
#[cfg(feature = "fuse")]
mod replies;
#[cfg(feature = "fuse")]
mod requests;
#[cfg(feature = "fuse")]
mod served;
#[cfg(feature = "fuse")]
mod waits;
