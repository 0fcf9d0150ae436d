//! Confirmations that arrive.
//!
//! A confirmation counts only if its correlation is that of a request that waits, which no other
//! process knows, and if both agents are right. All other messages are acknowledged and dropped: the
//! requester queries the provider instead of believing them. A report of the data plane or of a fault
//! only makes it query soon, since anyone may send one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::message::{Envelope, ErrorId, Header, Message, NotificationKind, ServiceException};
use crate::provider::Reply;

/// Confirmations that have arrived, and the requests that wait for them.
#[derive(Debug)]
pub struct Inbox {
    nsa: String,
    provider: String,
    /// Confirmations by correlation.
    waiting: Mutex<BTreeMap<String, Option<Message>>>,
    arrived: Condvar,
    has_report: AtomicBool,
}

impl Inbox {
    /// Returns the empty inbox of a requester with one provider.
    pub(super) const fn new(nsa: String, provider: String) -> Self {
        Self {
            nsa,
            provider,
            waiting: Mutex::new(BTreeMap::new()),
            arrived: Condvar::new(),
            has_report: AtomicBool::new(false),
        }
    }

    /// Takes a message from the network, and returns the response.
    pub fn accept(&self, octets: &[u8]) -> Reply {
        match Envelope::decode(octets, MESSAGE_MAX) {
            Ok(Envelope {
                header: Some(header),
                message,
            }) => {
                let answer = Envelope::new(header.answer(), Message::Acknowledgment);
                self.keep(&header, message);
                Reply {
                    is_fault: false,
                    document: answer.encode(),
                }
            }
            Ok(Envelope { header: None, .. }) => self.refuse("the header is missing: send one"),
            Err(why) => self.refuse(&why.to_string()),
        }
    }

    fn keep(&self, header: &Header, message: Message) {
        if header.requester != self.nsa || header.provider != self.provider {
            return;
        }
        if let Message::Notification(report) = &message
            && matches!(
                report.kind,
                NotificationKind::DataPlane(_) | NotificationKind::ErrorEvent { .. }
            )
        {
            self.has_report.store(true, Ordering::Relaxed);
        }
        let mut waiting = self.lock();
        if let Some(place) = waiting.get_mut(&header.correlation_id)
            && place.is_none()
            && !matches!(message, Message::Notification(_))
        {
            *place = Some(message);
            drop(waiting);
            self.arrived.notify_all();
        }
    }

    fn refuse(&self, why: &str) -> Reply {
        let exception = ServiceException::new(&self.nsa, ErrorId::Payload, why);
        let fault = Envelope {
            header: None,
            message: Message::Fault(Box::new(exception)),
        };
        Reply {
            is_fault: true,
            document: fault.encode(),
        }
    }

    /// Returns true if a report about a circuit has arrived since the last call. It may be forged: query the provider.
    pub fn take_report(&self) -> bool {
        self.has_report.swap(false, Ordering::Relaxed)
    }

    /// Begins to wait for a confirmation.
    pub(super) fn expect(&self, correlation_id: &str) {
        self.lock().insert(correlation_id.to_owned(), None);
    }

    /// Returns the expected confirmation, if it arrives in time, and stops waiting.
    pub(super) fn take(&self, correlation_id: &str, longest: Duration) -> Option<Message> {
        let waiting = self.lock();
        let is_empty = |waiting: &mut BTreeMap<String, Option<Message>>| {
            waiting.get(correlation_id).is_some_and(Option::is_none)
        };
        let waited = self.arrived.wait_timeout_while(waiting, longest, is_empty);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.remove(correlation_id).flatten()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Message>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum length of a message in bytes.
const MESSAGE_MAX: usize = 64 << 10;
