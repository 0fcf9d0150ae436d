//! Socket through which further channels use the login of the first ssh process (`ControlMaster` of OpenSSH).

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use lighthaul_base::to_hex;
use lighthaul_io::crypto::identity::random_octets;

/// Directory of the control socket, which only this user can enter. It is removed with this value.
#[derive(Debug)]
pub(crate) struct ControlSocket(PathBuf);

impl ControlSocket {
    /// Creates the folder.
    pub(crate) fn new() -> io::Result<Self> {
        let name = format!("lh-{}", to_hex(&random_octets::<6>()));
        let usual = std::env::temp_dir().join(&name);
        let folder = if is_plain(&usual) {
            usual
        } else {
            PathBuf::from("/tmp").join(name)
        };
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// Returns the options for the process that logs in.
    pub(crate) fn options_to_open(&self) -> Vec<String> {
        self.options("yes")
    }

    /// Returns the options of ssh that open a session over the existing connection (`ControlMaster`).
    pub(crate) fn options_to_share(&self) -> Vec<String> {
        self.options("no")
    }

    /// Returns true if the ssh process has logged in, which creates the socket.
    pub(crate) fn is_open(&self) -> bool {
        self.0.join("s").exists()
    }

    fn options(&self, master: &str) -> Vec<String> {
        let path = self.0.display();
        vec![
            format!("-oControlMaster={master}"),
            format!("-oControlPath={path}/s"),
            "-oControlPersist=no".to_owned(),
        ]
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Returns true if ssh can use `path` unchanged: a socket address has 108 octets, and ssh appends some to the path.
fn is_plain(path: &Path) -> bool {
    let octets = path.as_os_str().as_encoded_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/-_.".contains(b);
    octets.len() <= PATH_MAX && octets.iter().all(plain)
}

/// Longest path of the folder.
const PATH_MAX: usize = 70;
