//! Service of one domain, from its configuration until it is stopped.
//!
//! A wrong setting ends the start with a remedy. The service manager is notified when the socket for local programs is
//! open. After a signal the devices keep their rates, so that the next start continues all paths.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_domains::config::KnownDevices;
use lighthaul_domains::control::ControlSocket;
use lighthaul_domains::{DomainConfig, Service};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::Error;
use sd_notify::NotifyState;
use tracing::{error, info};

use crate::error::Fault;

/// Settings of the service of a domain.
#[derive(Clone, Debug)]
pub struct Settings {
    /// File with the configuration.
    pub config: PathBuf,
    /// Path of the socket for local programs.
    pub socket: PathBuf,
    /// True to start although the clock is far beyond the last run, and paths are forgotten.
    pub accept_clock: bool,
}

/// Runs the service of a domain until it is stopped or fails.
pub fn run(settings: &Settings) -> Result<(), Error> {
    let mut config = DomainConfig::read(&settings.config).map_err(Fault::Domain)?;
    config.accepts_clock = settings.accept_clock;
    let mut known = KnownDevices::read(&config.store);
    let devices = config.devices.open_known(&known).map_err(Fault::Domain)?;
    known.note(devices.capabilities());
    config
        .add_limits(devices.capabilities())
        .map_err(|why| lighthaul_domains::Error::Config {
            path: settings.config.clone(),
            why,
        })
        .map_err(Fault::Domain)?;
    let service = Service::start(config.clone(), Box::new(devices)).map_err(Fault::Domain)?;
    let control = ControlSocket::open(&settings.socket, config, service.handle());
    let control = control.map_err(Fault::Control)?;
    info!("listening on {} for neighbors", service.local());
    info!(
        "the key of this domain is {}; neighbors pin it",
        service.key()
    );
    info!(
        "answering `lighthaul path` at {}",
        settings.socket.display()
    );
    // without a service manager the notification has no receiver
    sd_notify::notify(&[NotifyState::Ready]).ok();
    while !interrupt::is_requested() && !service.has_ended() {
        pause(LOOK);
    }
    drop(control);
    finish_paths(&service);
    sd_notify::notify(&[NotifyState::Stopping]).ok();
    service.stop().map_err(Fault::Domain)?;
    info!("stopped; the devices keep their rates");
    Ok(())
}

/// Lets the devices follow the paths that they have after a fault, while the next start would fail, too: the disk is
/// full, for example. Devices without timers would keep their rates.
fn finish_paths(service: &Service) {
    let mut is_told = false;
    while !interrupt::is_requested() && !service.has_idle_devices() {
        match service.check_store() {
            Ok(()) => return,
            Err(why) if !is_told => {
                error!(
                    "{why}; until then, no path can be requested, and the devices complete the paths that they have"
                );
                let status = "the store fails: devices complete their paths";
                sd_notify::notify(&[NotifyState::Status(status)]).ok();
                is_told = true;
            }
            Err(_) => {}
        }
        // a start is possible soon after the fault has been removed
        for _ in 0..20 {
            if interrupt::is_requested() || service.has_idle_devices() {
                return;
            }
            pause(LOOK);
        }
    }
}

/// Returns the key of a domain, which is generated if missing.
pub fn key(config: &Path) -> Result<String, Error> {
    let key = lighthaul_domains::config::read_key(config).map_err(Fault::Domain)?;
    Ok(key.to_string())
}

/// Interval at which a signal and the end of the service are noticed.
const LOOK: Duration = Duration::from_millis(50);
