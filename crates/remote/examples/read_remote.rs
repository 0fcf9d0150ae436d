//! Times of reads of a remote file: `read_remote lh://HOST:PORT/FILE PIN KEY`, with the pin of the daemon and a private
//! key.
//!
//! - 1,000 ranges of 64 KiB all over the file, in sessions of their own and again in the same session.
//! - The whole file, 1 MiB at a time, and how much of it came in each tenth of a second.
//!
//! In the lab: `lighthaul lab run --rate 1Gb/s --rtt 100ms -- sh SCRIPT`, where the script starts a daemon by
//! `lighthaul lab on b`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "an example")]

use lighthaul_io::host::clock::Clock;
use lighthaul_remote::files::connect;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::Route;
use lighthaul_remote_files::client::ranges::ByteRange;
use lighthaul_remote_files::client::remote_files::RemoteFiles;

const RANGES: u64 = 1000;
const RANGE: u64 = 64 << 10;
const PIECE: usize = 1 << 20;
const ROUNDS: usize = 3;

fn main() {
    let mut args = std::env::args().skip(1);
    let place = Place::parse(&args.next().unwrap()).unwrap();
    let mut route = Route::default();
    route.daemon.pin = args.next();
    route.daemon.key = args.next().map(Into::into);
    let clock = Clock::start();
    for round in 1..=ROUNDS {
        let begun = clock.now();
        let files = connect(&route, &place, false).unwrap();
        let connected = clock.now().since(begun);
        println!("session {round}: connected in {connected:?}");
        for nth in ["first", "second", "third"] {
            let begun = clock.now();
            read_ranges(&files, place.path());
            let took = clock.now().since(begun);
            println!("  {RANGES} ranges of 64 KiB, {nth} time: {took:?}");
        }
    }
    let files = connect(&route, &place, false).unwrap();
    let begun = clock.now();
    let reader = files.open(place.path()).unwrap();
    println!("opened in {:?}", clock.now().since(begun));
    let (begun, mut at, mut tenths) = (clock.now(), 0, Vec::new());
    while at < reader.size() {
        let read = reader.read_at(at, PIECE).unwrap().len();
        at += read as u64;
        let tenth = clock.now().since(begun).as_millis() as usize / 100;
        tenths.resize(tenths.len().max(tenth + 1), 0);
        tenths[tenth] += read * 8 / 100_000;
    }
    let took = clock.now().since(begun);
    println!("{at} bytes in {took:?}; Mb/s in each tenth of a second: {tenths:?}");
}

fn read_ranges(files: &RemoteFiles, path: &[u8]) {
    let (info, _) = files.stat(path, true).unwrap();
    let apart = (info.size - RANGE) / RANGES;
    let range = |nth: u64| ByteRange {
        path: path.to_vec(),
        // not in the order of the file
        offset: nth * 7 % RANGES * apart,
        len: RANGE,
    };
    let wanted: Vec<ByteRange> = (0..RANGES).map(range).collect();
    for bytes in files.cat_ranges(&wanted) {
        assert_eq!(bytes.unwrap().len() as u64, RANGE);
    }
}
