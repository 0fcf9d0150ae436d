//! Lambda Merge (SABUL paper, section 6): two streams of records from one site are merged by their keys at another.
//!
//! ```text
//! source 1 -> stream -> daemon -> pipe left  \
//!                                             merge: windows of records -> pairs
//! source 2 -> stream -> daemon -> pipe right /
//! ```
//!
//! `cargo run --release -p lighthaul --example lambda_merge` prints Table 3 of the paper beside the results on loopback.
//! `lambda_merge send PLACE PLACE` and `lambda_merge merge PIPE PIPE` are the two sides between two hosts.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

#[path = "../daemon/serve.rs"]
mod serve;

mod records;
mod window;

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::{env, process, thread};

use lighthaul::{Client, Place, Settings, StreamRequest};
use lighthaul_base::{Instant, Rate};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::host::clock::Clock;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::records::{RECORD_LEN, keys, messages};
use crate::serve::serve;
use crate::window::{Merge, Side};

/// Result of a merge.
struct Outcome {
    /// Records of both streams.
    records: u64,
    matched_percent: f64,
    rate: Rate,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => table(COUNT),
        ["send", left, right] => {
            let client = Client::new(Settings::default());
            let places = [Place::parse(left)?, Place::parse(right)?];
            send(&client, places, COUNT, PAPER[1].0)
        }
        ["merge", left, right] => {
            let outcome = merge([Path::new(left), Path::new(right)])?;
            print(PAPER[1], &outcome);
            Ok(())
        }
        _ => Err("give nothing, send PLACE PLACE, or merge PIPE PIPE".into()),
    }
}

/// Prints Table 3 of the paper, with the results for `count` records of each stream.
fn table(count: u64) -> Result<(), Box<dyn Error>> {
    println!("window {WINDOW} records of {RECORD_LEN} bytes, {count} records in each stream");
    println!("random %   paper: match %, Mb/s   here: match %, Mb/s");
    for row in PAPER {
        print(row, &on_loopback(count, row.0)?);
    }
    Ok(())
}

fn print((random, matched, mbps): (u64, u64, u64), outcome: &Outcome) {
    let (percent, rate) = (outcome.matched_percent, outcome.rate.as_mbps_f64());
    let records = outcome.records;
    println!(
        "{random:8}   {matched:14}, {mbps:4}   {percent:13.1}, {rate:4.0}   {records} records"
    );
}

/// Merges two streams that reach a daemon of this host.
fn on_loopback(count: u64, random: u64) -> Result<Outcome, Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("lighthaul-merge-{}-{random}", process::id()));
    fs::create_dir_all(folder.join("there"))?;
    let done = carry(&folder, count, random);
    fs::remove_dir_all(&folder)?;
    done
}

fn carry(folder: &Path, count: u64, random: u64) -> Result<Outcome, Box<dyn Error>> {
    let ours = Identity::load_or_generate(&folder.join("key"))?;
    let (port, key) = serve(&folder.join("there"), &ours)?;
    let pipes = ["left", "right"].map(|name| folder.join("there").join(name));
    for pipe in &pipes {
        mkfifoat(CWD, pipe, Mode::RUSR | Mode::WUSR)?;
    }
    let mut settings = Settings::default();
    settings.route.daemon.key = Some(folder.join("key"));
    settings.route.daemon.pin = Some(key);
    let client = Client::new(settings);
    let place = |name| Place::parse(&format!("lh://127.0.0.1:{port}/{name}"));
    let places = [place("left")?, place("right")?];
    let sender =
        thread::spawn(move || send(&client, places, count, random).map_err(|why| why.to_string()));
    let [left, right] = &pipes;
    let outcome = merge([left, right])?;
    sender.join().map_err(|_| "the sender failed")??;
    Ok(outcome)
}

/// Sends two streams with the same keys. In each, `random` percent of the records come later.
fn send(
    client: &Client,
    places: [Place; 2],
    count: u64,
    random: u64,
) -> Result<(), Box<dyn Error>> {
    let mut senders = Vec::new();
    for (place, seed) in places.into_iter().zip(1..) {
        let mut request = StreamRequest::to(place);
        // over TCP, no message is lost
        request.udp = false;
        let stream = client.stream(request)?;
        senders.push(thread::spawn(move || {
            for message in messages(keys(count, random, DELAY_MAX, seed)) {
                stream.send(&message)?;
            }
            stream.finish().map(drop)
        }));
    }
    for sender in senders {
        sender.join().map_err(|_| "a source failed")??;
    }
    Ok(())
}

/// Merges the records of two pipes until both end.
fn merge(pipes: [&Path; 2]) -> Result<Outcome, Box<dyn Error>> {
    let sources = pipes.map(|pipe| read(pipe.to_owned()));
    let mut merge = Merge::new(WINDOW);
    let (mut records, mut bytes) = (0, 0);
    let clock = Clock::start();
    let mut started = None;
    let mut open = [true; 2];
    while open != [false; 2] {
        for (nth, side) in [Side::Left, Side::Right].into_iter().enumerate() {
            let Some(message) = sources[nth].recv().ok().transpose()? else {
                open[nth] = false;
                continue;
            };
            started.get_or_insert_with(|| clock.now());
            for (key, payload) in records::records(&message) {
                let partner = merge.push(side, key, payload.to_vec());
                assert!(
                    partner.is_none_or(|partner| partner == payload),
                    "payloads differ"
                );
                records += 1;
            }
            bytes += message.len() as u64;
        }
    }
    let time = clock.now().since(started.unwrap_or(Instant::ZERO));
    Ok(Outcome {
        records,
        matched_percent: 200.0 * merge.matched as f64 / (records as f64).max(1.0),
        rate: Rate::of(bytes, time),
    })
}

/// Reads the messages of a pipe, each after its length, in a thread.
#[expect(clippy::disallowed_methods, reason = "an example reads a pipe")]
fn read(pipe: std::path::PathBuf) -> Receiver<std::io::Result<Vec<u8>>> {
    let (to, from) = sync_channel(MESSAGES_MAX);
    thread::spawn(move || {
        let opened = File::open(pipe);
        let mut file = match opened {
            Ok(file) => BufReader::with_capacity(1 << 20, file),
            Err(why) => return drop(to.send(Err(why))),
        };
        loop {
            let mut len = [0; 4];
            if file.read_exact(&mut len).is_err() {
                return;
            }
            let mut message = vec![0; u32::from_be_bytes(len) as usize];
            let read = file.read_exact(&mut message).map(|()| message);
            if to.send(read).is_err() {
                return;
            }
        }
    });
    from
}

/// Rows of Table 3: records out of order and matches in percent, and the speed in Mb/s on links of 1 Gb/s.
const PAPER: [(u64, u64, u64); 4] = [(2, 92, 600), (10, 82, 630), (20, 79, 655), (33, 71, 671)];
/// Records of a window, as in the paper.
const WINDOW: usize = 10_000;
/// Number of records by which a record may be late. The paper does not give its value.
const DELAY_MAX: u64 = 30_000;
/// Records of each stream.
const COUNT: u64 = 2_000_000;
/// Messages that wait for the merge.
const MESSAGES_MAX: usize = 1024;

#[test]
fn example_merges_most_records_and_fewer_with_more_disorder() {
    let [few, many] = [2, 33].map(|random| on_loopback(100_000, random).unwrap());
    assert_eq!((few.records, many.records), (200_000, 200_000));
    assert!(few.matched_percent > 90.0, "{}", few.matched_percent);
    assert!(
        (20.0..few.matched_percent).contains(&many.matched_percent),
        "{}",
        many.matched_percent
    );
}
