//! Typed messages between two programs, here two threads: through a pipe of a daemon on loopback.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

#[path = "daemon/host.rs"]
mod host;
#[path = "daemon/serve.rs"]
mod serve;

use std::error::Error;
use std::sync::Arc;
use std::thread;

use lighthaul::{Client, Place, Schema, StreamRequest};

use crate::host::Host;

/// Schema that both programs share.
const POSE: &str = "Pose { time: f64, joints: [f32], arm: text }";

fn main() -> Result<(), Box<dyn Error>> {
    Host::with("typed", |host| carry(&host.client, host.pipe("poses")?))
}

fn carry(client: &Client, pipe: Place) -> Result<(), Box<dyn Error>> {
    let pose: Arc<Schema> = Arc::new(POSE.parse()?);
    exchange(client, &pipe, &pose)?;

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
