//! Host for the examples: a daemon with its directory, and a client.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use lighthaul::{Client, Place, Settings};
use lighthaul_io::crypto::identity::Identity;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::serve::serve;

/// A daemon on loopback, and a client that it allows.
pub(crate) struct Host {
    pub(crate) client: Client,
    /// Directory that the daemon serves.
    folder: PathBuf,
    port: u16,
}

impl Host {
    /// Starts a daemon in a directory named after the example, does `work`, and removes the directory.
    pub(crate) fn with<T>(
        example: &str,
        work: impl FnOnce(&Self) -> Result<T, Box<dyn Error>>,
    ) -> Result<T, Box<dyn Error>> {
        let folder = env::temp_dir().join(format!("lighthaul-{example}-{}", process::id()));
        fs::create_dir_all(folder.join("there"))?;
        let done = Self::start(&folder).and_then(|host| work(&host));
        fs::remove_dir_all(&folder)?;
        done
    }

    fn start(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let there = folder.join("there");
        let ours = Identity::load_or_generate(&folder.join("key"))?;
        let (port, key) = serve(&there, &ours)?;
        let mut settings = Settings::default();
        settings.route.daemon.key = Some(folder.join("key"));
        settings.route.daemon.pin = Some(key);
        let client = Client::new(settings);
        Ok(Self {
            client,
            folder: there,
            port,
        })
    }

    /// Makes a pipe that the daemon serves. Returns its place.
    pub(crate) fn pipe(&self, name: &str) -> Result<Place, Box<dyn Error>> {
        mkfifoat(CWD, self.folder.join(name), Mode::RUSR | Mode::WUSR)?;
        Ok(Place::parse(&format!(
            "lh://127.0.0.1:{}/{name}",
            self.port
        ))?)
    }
}
