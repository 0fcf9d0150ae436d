//! TCP streams that send as fast as possible, and their rates.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::wait;

use crate::testbed::Testbed;

/// Stream from the left host to the right one.
#[derive(Debug)]
pub(crate) struct Traffic {
    is_over: Arc<AtomicBool>,
    threads: Option<(JoinHandle<()>, JoinHandle<Arrivals>)>,
}

/// Numbers of received bytes over time.
#[derive(Debug)]
pub(crate) struct Arrivals(Vec<(Instant, u64)>);

impl Traffic {
    /// Starts to send to an address of the right host.
    pub(crate) fn start(testbed: &Testbed, clock: Clock, target: &str) -> Self {
        let target: SocketAddr = target.parse().unwrap();
        let listener = testbed.right.within(|| TcpListener::bind(target)).unwrap();
        let mut to = testbed.left.within(|| TcpStream::connect(target)).unwrap();
        let mut from = listener.accept().unwrap().0;
        to.set_write_timeout(Some(PATIENCE)).unwrap();
        from.set_read_timeout(Some(PATIENCE)).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let sender = thread::spawn(move || {
            let block = vec![0; 1 << 16];
            while !over.load(Ordering::Relaxed) {
                // a slow circuit is not a failure
                let _ = to.write(&block);
            }
        });
        let over = Arc::clone(&is_over);
        let receiver = thread::spawn(move || {
            let mut arrivals = vec![(clock.now(), 0)];
            let mut room = vec![0; 1 << 18];
            let mut bytes = 0;
            while !over.load(Ordering::Relaxed) {
                bytes += from.read(&mut room).unwrap_or(0) as u64;
                arrivals.push((clock.now(), bytes));
            }
            Arrivals(arrivals)
        });
        Self {
            is_over,
            threads: Some((sender, receiver)),
        }
    }

    /// Stops at `at` and returns the received bytes.
    pub(crate) fn end(mut self, clock: Clock, at: Instant) -> Arrivals {
        wait(clock, &mut [], at).unwrap();
        self.is_over.store(true, Ordering::Relaxed);
        let (sender, receiver) = self.threads.take().unwrap();
        let arrivals = receiver.join().unwrap();
        sender.join().unwrap();
        arrivals
    }
}

impl Arrivals {
    /// Returns the goodput in Mb/s between two moments.
    pub(crate) fn mbps(&self, from: Instant, till: Instant) -> f64 {
        let bytes = |at| {
            let before = self.0.partition_point(|(when, _)| *when <= at);
            self.0[before.saturating_sub(1)].1
        };
        (bytes(till) - bytes(from)) as f64 * 8.0 / till.since(from).as_secs_f64() / 1e6
    }
}

/// Longest delay until a thread notices the end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Sends to all of these for two seconds. Returns the rate of each in Mb/s, without the first half second.
pub(crate) fn send(testbed: &Testbed, targets: &[&str]) -> Vec<f64> {
    let clock = Clock::start();
    let mut streams = Vec::new();
    for target in targets {
        streams.push(Traffic::start(testbed, clock, target));
    }
    let begin = clock.now();
    let [from, till] = [500, 2000].map(|millis| begin + Duration::from_millis(millis));
    let arrivals: Vec<Arrivals> = streams
        .into_iter()
        .map(|stream| stream.end(clock, till))
        .collect();
    arrivals
        .iter()
        .map(|arrivals| arrivals.mbps(from, till))
        .collect()
}
