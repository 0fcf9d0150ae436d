//! All links of a domain, and their threads.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::panics;
use lighthaul_io::host::wait::Waker;
use lighthaul_io::net::tcp;
use lighthaul_stargate::wire::LEN_MAX;
use lighthaul_stargate::{DomainId, Message};
use tracing::error;

use crate::endpoints::{Deliver, Identification, Panicked};
use crate::error::{TransportError as Error, text_of};
use crate::link::{Link, LinkStatus};
use crate::link_thread::LinkThread;
use crate::listener::Listener;

/// Connections to all neighbors. They close when it is dropped.
pub struct Transport {
    links: Arc<BTreeMap<DomainId, Arc<Link>>>,
    local: SocketAddr,
    clock: Clock,
    stop: Arc<AtomicBool>,
    stopped: Waker,
    threads: Vec<JoinHandle<()>>,
}

impl Transport {
    /// Listens on an address and connects to the neighbors. Messages go to `deliver`, which may wait: the neighbor
    /// then waits too. After a call of `panicked` the transport is incomplete.
    pub fn start(
        listen: SocketAddr,
        known: Identification,
        (deliver, panicked): &(Deliver, Panicked),
    ) -> Result<Self, Error> {
        let failed = |why: std::io::Error| Error::Resources(why.to_string());
        let cannot_listen = |why: std::io::Error| Error::Listen {
            address: listen,
            why: why.to_string(),
        };
        for (domain, neighbor) in &known.neighbors {
            if neighbor.key.is(known.key) {
                return Err(Error::OwnKey(domain.0));
            }
        }
        let listener = tcp::listen(listen).map_err(cannot_listen)?;
        listener.set_nonblocking(true).map_err(cannot_listen)?;
        let local = listener.local_addr().map_err(cannot_listen)?;
        let mut links = BTreeMap::new();
        for neighbor in known.neighbors.keys() {
            let link = Link::new(known.me, *neighbor).map_err(failed)?;
            links.insert(*neighbor, Arc::new(link));
        }
        let mut transport = Self {
            links: Arc::new(links),
            local,
            clock: Clock::start(),
            stop: Arc::default(),
            stopped: Waker::new().map_err(failed)?,
            threads: Vec::new(),
        };
        let known = Arc::new(known);
        let listener = Listener {
            socket: listener,
            clock: transport.clock,
            known: Arc::clone(&known),
            links: Arc::clone(&transport.links),
            stop: Arc::clone(&transport.stop),
            stopped: transport.stopped.clone(),
        };
        transport.spawn("listener", panicked, || listener.run())?;
        for link in Arc::clone(&transport.links).values() {
            let thread = LinkThread::new(
                Arc::clone(link),
                Arc::clone(&known),
                Arc::clone(deliver),
                (Arc::clone(&transport.stop), transport.clock),
            );
            transport.spawn("link", panicked, || thread.run())?;
        }
        Ok(transport)
    }

    /// Sends a message to a neighbor. It may be lost.
    pub fn send(&self, to: DomainId, message: &Message) {
        let Some(link) = self.links.get(&to) else {
            return;
        };
        let octets = message.encode();
        if octets.len() > LEN_MAX {
            error!(
                domain = to.0,
                len = octets.len(),
                "a message is too long and was not sent; please report this fault of lighthaul"
            );
            return;
        }
        link.send(octets, self.clock.now());
    }

    /// Returns the address on which the domain listens.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the status of each link.
    pub fn status(&self) -> BTreeMap<DomainId, LinkStatus> {
        let links = self.links.iter();
        links.map(|(id, link)| (*id, link.status())).collect()
    }

    fn spawn(
        &mut self,
        name: &str,
        panicked: &Panicked,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        let (part, panicked) = (name.to_owned(), Arc::clone(panicked));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(panic) = panics::catch(&part, run) {
                panicked(text_of(panic));
            }
        });
        let thread = thread.map_err(|why| Error::Resources(why.to_string()))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.stopped.raise();
        for link in self.links.values() {
            link.wake.raise();
        }
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
        for link in self.links.values() {
            link.close();
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}
