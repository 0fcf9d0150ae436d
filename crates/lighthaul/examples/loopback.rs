//! Program that starts a daemon on loopback, copies a file there, and copies it back.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::Path;
use std::{env, fs, process, thread};

use lighthaul::{Client, CopyEvent, CopyRequest, Event, Place, Settings};
use lighthaul_daemon::serve::Server;
use lighthaul_daemon::settings::{AccessPolicy, Limits, Settings as DaemonSettings};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("lighthaul-example-{}", process::id()));
    fs::create_dir_all(folder.join("there"))?;
    let done = copy_both_ways(&folder);
    fs::remove_dir_all(&folder)?;
    done
}

fn copy_both_ways(folder: &Path) -> Result<(), Box<dyn Error>> {
    let ours = Identity::load_or_generate(&folder.join("key"))?;
    let (port, key) = serve(&folder.join("there"), &ours)?;
    let mut settings = Settings::default();
    settings.route.daemon.key = Some(folder.join("key"));
    settings.route.daemon.pin = Some(key);
    let client = Client::new(settings);

    let file = folder.join("run1.h5");
    fs::write(&file, vec![7; 1 << 20])?;
    let there = Place::parse(&format!("lh://127.0.0.1:{port}/run1.h5"))?;
    let push = CopyRequest::new([Place::Here(file.clone())], there.clone());
    let transfer = client.copy_observed(push, |event| {
        if let Event::Copy(CopyEvent::Started(start)) = event {
            println!("{} carries the data", start.protocol);
        }
    })?;
    let summary = transfer.wait()?;
    println!("{} bytes there, verified", summary.bytes);

    let back = folder.join("back.h5");
    let pull = CopyRequest::new([there], Place::Here(back.clone()));
    client.copy(pull)?.wait()?;
    assert_eq!(fs::read(file)?, fs::read(back)?);
    Ok(())
}

/// Starts a daemon for one client. Returns its port and its key.
fn serve(root: &Path, client: &Identity) -> Result<(u16, String), Box<dyn Error>> {
    let identity = Identity::generate();
    let key = tls::fingerprint(&identity)?.to_string();
    let server = Server::listen(DaemonSettings {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        ports: None,
        identity,
        access: AccessPolicy::Only(tls::fingerprint(client)?),
        root: Some(root.to_owned()),
        plain: false,
        relay: false,
        gateway: None,
        limits: Limits::default(),
    })?;
    let port = server.address()?.port();
    thread::spawn(move || server.run());
    Ok((port, key))
}

#[test]
fn example_runs() {
    main().unwrap();
}
