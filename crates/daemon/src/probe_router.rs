//! Delivery of datagrams on the shared UDP port to the sessions that wait for them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_io::net::probe::connection_of;
use lighthaul_io::net::udp::Udp;

/// Channel of a session's probes, with the address of each sender.
pub(crate) type Probes = SyncSender<(SocketAddr, Vec<u8>)>;

/// Sessions that wait for probes on the shared port, by the number in their datagrams.
#[derive(Debug, Default)]
pub(crate) struct ProbeRouter {
    pub(crate) waiting: Mutex<BTreeMap<u64, Probes>>,
}

impl ProbeRouter {
    /// Delivers datagrams of the shared port to their sessions.
    pub(crate) fn run(&self, udp: &Udp) {
        let clock = Clock::start();
        let mut buffer = vec![0; 1 << 16];
        let mut drops = 0;
        loop {
            let received = match udp.receive_into(&mut buffer, &mut drops) {
                Ok(Some(received)) => received,
                Ok(None) => {
                    let watch = Watch::read(udp.as_raw_fd());
                    if wait(clock, &mut [watch], Instant::NEVER).is_err() {
                        return;
                    }
                    continue;
                }
                Err(_) => continue,
            };
            let Some(from) = received.from else { continue };
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for datagram in buffer[..received.len].chunks(received.segment_len) {
                let session = connection_of(datagram).and_then(|number| waiting.get(&number));
                if let Some(session) = session {
                    // a session with a full channel needs no more probes
                    session.try_send((from, datagram.to_vec())).ok();
                }
            }
        }
    }
}
