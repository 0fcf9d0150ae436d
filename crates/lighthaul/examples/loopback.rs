//! Program that starts a daemon on loopback, copies a file there, and copies it back.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

#[path = "daemon/serve.rs"]
mod serve;

use std::error::Error;
use std::path::Path;
use std::{env, fs, process};

use lighthaul::{Client, CopyEvent, CopyRequest, Event, Place, Settings};
use lighthaul_io::crypto::identity::Identity;

use crate::serve::serve;

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

#[test]
fn example_runs() {
    main().unwrap();
}
