//! Two programs, here two threads, with a stream of messages between them: through a pipe of a daemon on loopback.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

#[path = "daemon/host.rs"]
mod host;
#[path = "daemon/serve.rs"]
mod serve;

use std::error::Error;
use std::thread;

use lighthaul::{Client, Place, StreamRequest};

use crate::host::Host;

fn main() -> Result<(), Box<dyn Error>> {
    Host::with("stream", |host| carry(&host.client, host.pipe("poses")?))
}

fn carry(client: &Client, pipe: Place) -> Result<(), Box<dyn Error>> {
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
