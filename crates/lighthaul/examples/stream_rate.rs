//! Rate of a stream of objects of 1 MiB: sends them to a pipe of a daemon, or receives them from a file, and prints the
//! seconds. `crates/python/examples/stream_arrays.py` compares it with the Python package.
//!
//! `stream_rate to|from PLACE COUNT PER_SECOND KEY PIN udp|tcp`
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::env;
use std::error::Error;
use std::time::Duration;

use lighthaul::{Client, ObjectOptions, Place, Settings, Size, StreamKind, StreamRequest};
use lighthaul_io::host::clock::Clock;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [direction, place, count, per_second, key, pin, carrier] = &words[..] else {
        return Err("give to|from PLACE COUNT PER_SECOND KEY PIN udp|tcp".into());
    };
    let mut settings = Settings::default();
    settings.route.daemon.key = Some(key.into());
    settings.route.daemon.pin = Some(pin.clone());
    let client = Client::new(settings);
    let place = Place::parse(place)?;
    let mut request = if direction == "to" {
        StreamRequest::to(place)
    } else {
        StreamRequest::from(place)
    };
    request.udp = carrier == "udp";
    request.kind = StreamKind::Objects(ObjectOptions {
        delay: DELAY,
        ..ObjectOptions::new(Size(OBJECT as u64), per_second.parse()?)
    });
    let stream = client.stream(request)?;
    let clock = Clock::start();
    let begin = clock.now();
    if direction == "to" {
        let message = vec![7; OBJECT];
        for _ in 0..count.parse()? {
            stream.send(&message)?;
        }
    } else {
        while let Some(message) = stream.receive()? {
            assert_eq!(message.len(), OBJECT);
        }
    }
    stream.finish()?;
    println!("{}", clock.now().since(begin).as_secs_f64());
    Ok(())
}

/// Bytes of an object.
const OBJECT: usize = 1 << 20;
/// Time to collect a payload.
const DELAY: Duration = Duration::from_millis(50);
