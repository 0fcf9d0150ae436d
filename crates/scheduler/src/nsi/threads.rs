//! Threads of a provider: one for its work, and [`LANES`] for deliveries to each requester, so that neither a silent
//! requester nor a silent URL delays others.

use std::io;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, park_timeout};
use std::time::Duration;

use lighthaul_booking_client::https::{HttpsClient, ServerTrust};
use lighthaul_nsi::provider::delivery::LANES;
use lighthaul_nsi::provider::{Outgoing, Provider};
use tracing::warn;

/// Running threads. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct NsiThreads {
    is_ending: Arc<AtomicBool>,
    provider: Arc<Provider>,
    threads: Vec<JoinHandle<()>>,
}

impl NsiThreads {
    /// Starts the threads of a provider.
    pub(crate) fn start(provider: Arc<Provider>) -> io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let mut threads = Self {
            is_ending: Arc::clone(&is_ending),
            provider: Arc::clone(&provider),
            threads: Vec::new(),
        };
        let mut senders = Vec::new();
        let requesters: Vec<String> = provider
            .config()
            .requesters
            .iter()
            .flat_map(|requester| iter::repeat_n(requester.nsa.clone(), LANES))
            .collect();
        for requester in requesters {
            let client = HttpsClient::new(ServerTrust::certificate(), TIMEOUT);
            let client = client.map_err(io::Error::other)?;
            let (provider, ending) = (Arc::clone(&provider), Arc::clone(&is_ending));
            let sender = thread::Builder::new()
                .name("nsi replies".into())
                .spawn(move || {
                    while !ending.load(Ordering::Relaxed) {
                        let is_ready =
                            provider.deliver_next(&requester, |outgoing| send(&client, outgoing));
                        if !is_ready {
                            park_timeout(PAUSE);
                        }
                    }
                })?;
            senders.push(sender.thread().clone());
            threads.threads.push(sender);
        }
        let worker = thread::Builder::new().name("nsi".into()).spawn(move || {
            while !is_ending.load(Ordering::Relaxed) {
                let wait = provider.work();
                senders.iter().for_each(thread::Thread::unpark);
                // changes of the books would otherwise occupy a processor
                provider.wait(wait.max(WORK_PAUSE));
            }
        })?;
        threads.threads.push(worker);
        Ok(threads)
    }
}

impl Drop for NsiThreads {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.provider.wake();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                warn!("a thread of NSI has failed");
            }
        }
    }
}

/// Sends a message to a requester, which must answer with success. Its response is not read.
fn send(client: &HttpsClient, outgoing: &Outgoing) -> Result<(), String> {
    let request = client.agent.post(&outgoing.url);
    let request = request.header("Content-Type", "text/xml; charset=utf-8");
    let request = request.header("SOAPAction", outgoing.action());
    let request = request.config().timeout_global(Some(DELIVERY_MAX)).build();
    let answer = request.send(outgoing.document.as_bytes());
    let answer = answer.map_err(|why| client.refused().unwrap_or_else(|| why.to_string()))?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(format!("it answers with status {}", answer.status()))
}

const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time of a delivery.
const DELIVERY_MAX: Duration = Duration::from_secs(20);
/// Maximum time between two looks for messages.
const PAUSE: Duration = Duration::from_millis(500);
/// Minimum time between two rounds of work.
const WORK_PAUSE: Duration = Duration::from_millis(20);
