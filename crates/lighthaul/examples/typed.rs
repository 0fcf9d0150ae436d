//! Typed messages between two programs, here two threads: through a pipe of a daemon on loopback.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

#[path = "daemon/serve.rs"]
mod serve;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::{env, fs, process, thread};

use lighthaul::{Client, Place, Schema, Settings, StreamRequest};
use lighthaul_io::crypto::identity::Identity;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::serve::serve;

/// Schema that both programs share.
const POSE: &str = "Pose { time: f64, joints: [f32], arm: text }";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("lighthaul-typed-{}", process::id()));
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
    let pose: Arc<Schema> = Arc::new(POSE.parse()?);
    exchange(&client, &pipe, &pose)?;

    // a program with another schema learns what differs
    let other: Arc<Schema> = Arc::new("Pose { time: f64, joints: [f64], arm: text }".parse()?);
    let reader = client.typed_stream(over_tcp(StreamRequest::from(pipe.clone())), &other)?;
    let sender = client.typed_stream(over_tcp(StreamRequest::to(pipe)), &pose)?;
    let mut message = sender.message();
    message.set("time", 0.0)?.set("arm", "left")?;
    message.set_array("joints", &[0.5_f32])?;
    sender.send(&message)?;
    match reader.receive() {
        Err(why)
            if why
                .text()
                .contains("its field joints is [f32], and [f64] is expected") =>
        {
            println!("{}", why.text());
            Ok(())
        }
        other => Err(format!("the other schema was accepted: {other:?}").into()),
    }
}

fn exchange(client: &Client, pipe: &Place, pose: &Arc<Schema>) -> Result<(), Box<dyn Error>> {
    let reader = client.typed_stream(over_tcp(StreamRequest::from(pipe.clone())), pose)?;
    let renderer = thread::spawn(move || {
        let mut sum = 0.0;
        while let Some(pose) = reader.receive()? {
            let joints: Vec<f32> = pose.array("joints").map_err(lighthaul::Fault::Packing)?;
            sum += joints.iter().sum::<f32>();
        }
        Ok::<_, lighthaul::Error>(sum)
    });
    let tracker = client.typed_stream(over_tcp(StreamRequest::to(pipe.clone())), pose)?;
    let mut message = tracker.message();
    for nth in 0..100_u8 {
        message
            .set("time", f64::from(nth) / 10.0)?
            .set("arm", "left")?;
        message.set_array("joints", &[0.25_f32; 8])?;
        tracker.send(&message)?;
    }
    tracker.finish()?;
    let sum = renderer.join().map_err(|_| "the renderer failed")??;
    println!("the sum of all joints is {sum}");
    assert!((sum - 200.0).abs() < 1e-9, "{sum}");
    Ok(())
}

/// Carries a stream over TCP, so that no message is lost.
fn over_tcp(mut request: StreamRequest) -> StreamRequest {
    request.udp = false;
    request
}

#[test]
fn example_runs() {
    main().unwrap();
}
