//! Two programs, here two threads, with a stream of messages between them: through a pipe of a daemon on loopback.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

#[path = "daemon/serve.rs"]
mod serve;

use std::error::Error;
use std::path::Path;
use std::{env, fs, process, thread};

use lighthaul::{Client, Place, Settings, StreamRequest};
use lighthaul_io::crypto::identity::Identity;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::serve::serve;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("lighthaul-stream-{}", process::id()));
    fs::create_dir_all(folder.join("there"))?;
    let done = carry(&folder);
    fs::remove_dir_all(&folder)?;
    done
}

fn carry(folder: &Path) -> Result<(), Box<dyn Error>> {
    let ours = Identity::load_or_generate(&folder.join("key"))?;
    let (port, key) = serve(&folder.join("there"), &ours)?;
    mkfifoat(CWD, folder.join("there/poses"), Mode::RUSR | Mode::WUSR)?;
    let mut settings = Settings::default();
    settings.route.daemon.key = Some(folder.join("key"));
    settings.route.daemon.pin = Some(key);
    let client = Client::new(settings);
    let pipe = Place::parse(&format!("lh://127.0.0.1:{port}/poses"))?;

    let mut request = StreamRequest::from(pipe.clone());
    // over TCP, no message is lost
    request.udp = false;
    let reader = client.stream(request)?;
    let renderer = thread::spawn(move || {
        let mut poses = 0;
        while let Some(pose) = reader.receive()? {
            assert_eq!(pose.len(), 12);
            poses += 1;
        }
        Ok::<_, lighthaul::Error>(poses)
    });

    let mut request = StreamRequest::to(pipe);
    request.udp = false;
    let tracker = client.stream(request)?;
    for nth in 0..100_u8 {
        tracker.send(&[nth; 12])?;
    }
    let summary = tracker.finish()?;
    println!("{} poses sent", summary.report.messages);
    let poses = renderer.join().map_err(|_| "the renderer failed")??;
    println!("{poses} poses received");
    assert_eq!(poses, 100);
    Ok(())
}

#[test]
fn example_runs() {
    main().unwrap();
}
