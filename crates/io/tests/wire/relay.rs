//! Relay between two sockets that drops, changes, delays and forges datagrams.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lighthaul_base::Rng;

use crate::pair::CONNECTION;

/// Relay that forwards datagrams from one socket to another, most of them unchanged.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Address that the sender sends to, and address that the receiver receives from.
    pub(crate) ends: [SocketAddr; 2],
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Harm>>,
}

/// Number of datagrams harmed in each way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Harm {
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
    pub(crate) delayed: u64,
    pub(crate) replayed: u64,
    pub(crate) corrupted: u64,
    pub(crate) truncated: u64,
    pub(crate) invented: u64,
}

struct Mangler {
    rng: Rng,
    out: UdpSocket,
    receiver: SocketAddr,
    /// Delayed datagrams, and those kept to be replayed.
    late: Vec<Vec<u8>>,
    old: Vec<Vec<u8>>,
    harm: Harm,
}

impl Relay {
    /// Starts a relay to `receiver` whose random choices derive from `seed`.
    pub(crate) fn start(receiver: SocketAddr, seed: u64) -> Self {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (inlet, out) = (bind(), bind());
        inlet
            .set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        let ends = [inlet.local_addr().unwrap(), out.local_addr().unwrap()];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (rng, late, old) = (Rng::new(seed), Vec::new(), Vec::new());
            let mut mangler = Mangler {
                rng,
                out,
                receiver,
                late,
                old,
                harm: Harm::default(),
            };
            let mut buffer = vec![0; 1 << 16];
            while !stopped.load(Ordering::Relaxed) {
                match inlet.recv(&mut buffer) {
                    Ok(len) => mangler.take(&buffer[..len]),
                    Err(_) => mangler.release_all(),
                }
            }
            mangler.harm
        });
        Self {
            ends,
            stop,
            thread: Some(thread),
        }
    }

    /// Stops the relay. Returns its counters.
    pub(crate) fn stop(mut self) -> Harm {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Mangler {
    fn take(&mut self, datagram: &[u8]) {
        let mut octets = datagram.to_vec();
        match self.rng.below(100) {
            0..4 => self.harm.dropped += 1,
            4..8 => {
                self.harm.duplicated += 1;
                self.send(datagram);
                self.send(datagram);
            }
            8..14 => {
                self.harm.delayed += 1;
                self.late.push(octets);
            }
            14..18 => {
                self.harm.corrupted += 1;
                let at = self.rng.below(octets.len() as u64) as usize;
                octets[at] ^= 1 << self.rng.below(8);
                self.send(&octets);
            }
            18..22 => {
                self.harm.truncated += 1;
                octets.truncate(self.rng.below(octets.len() as u64) as usize);
                self.send(&octets);
            }
            22..26 => {
                self.invent(datagram.len());
                self.send(datagram);
            }
            26..30 => {
                self.replay();
                self.send(datagram);
            }
            _ => self.send(datagram),
        }
        if self.rng.below(50) == 0 {
            self.old.push(datagram.to_vec());
        }
        if self.late.len() > 12 {
            let nth = self.rng.below(self.late.len() as u64) as usize;
            let octets = self.late.swap_remove(nth);
            self.send(&octets);
        }
    }

    /// Sends a forged datagram: random octets, or a right connection number with a plausible head.
    fn invent(&mut self, len: usize) {
        self.harm.invented += 1;
        let len = self.rng.below(2 * len as u64) as usize;
        let mut octets: Vec<u8> = (0..len).map(|_| self.rng.next_u64() as u8).collect();
        if self.rng.below(2) == 0 && len >= 16 {
            octets[..8].copy_from_slice(&CONNECTION.to_be_bytes());
            octets[8..10].copy_from_slice(&1_u16.to_be_bytes());
            octets[10..14].fill(0);
        }
        self.send(&octets);
    }

    fn replay(&mut self) {
        if let Some(last) = self.old.len().checked_sub(1) {
            self.harm.replayed += 1;
            let octets = self.old[self.rng.below(last as u64 + 1) as usize].clone();
            self.send(&octets);
        }
    }

    fn release_all(&mut self) {
        for octets in std::mem::take(&mut self.late) {
            self.send(&octets);
        }
    }

    fn send(&self, octets: &[u8]) {
        // The receiver may already have finished.
        self.out.send_to(octets, self.receiver).ok();
    }
}
