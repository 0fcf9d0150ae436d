//! Queue of messages to requesters.
//!
//! Messages of a requester are delivered in their order. A failed delivery is repeated after a
//! growing pause. After [`ATTEMPTS_MAX`] failures the message is given up, and its connection keeps
//! a `messageDeliveryTimeout` for queries. That is sent as well, so that a requester that answers
//! again learns which message it lacks. If too many messages wait, the oldest one is given up. Its
//! connection keeps the same note, which is not sent, since the queue is full.

use lighthaul_booking_client::json::Timestamp;
use tracing::warn;

use super::outgoing::Outgoing;
use super::state::{Change, Provider, State, undelivered};
use crate::message::Message;

impl Provider {
    /// Returns the first message to a requester, if it is due.
    pub fn outgoing(&self, requester: &str) -> Option<Outgoing> {
        self.first_due(&self.lock(), requester)
    }

    fn first_due(&self, state: &State, requester: &str) -> Option<Outgoing> {
        let now = self.now();
        let mut waiting = state.outbox.values();
        let first = waiting.find(|one| one.requester == requester);
        // a message that is due after more than the longest pause was queued before the clock was set
        // back
        let latest = now.0.saturating_add(PAUSE << PAUSE_SHIFT_MAX);
        let is_due = |one: &&Outgoing| one.next <= now || one.next.0 > latest;
        first.filter(is_due).cloned()
    }

    /// Returns the first message to a requester, if it is due. It keeps its place until it is settled.
    fn begin(&self, requester: &str) -> Option<Outgoing> {
        let mut state = self.lock();
        let outgoing = self.first_due(&state, requester)?;
        state.sending.insert(outgoing.nth);
        Some(outgoing)
    }

    /// Delivers the messages to a requester that are due, with `send`, which returns the reason of a
    /// failure.
    pub fn deliver(&self, requester: &str, mut send: impl FnMut(&Outgoing) -> Result<(), String>) {
        let mut turns = 0..TURN_MAX;
        while turns.next().is_some() && self.deliver_next(requester, &mut send) {}
    }

    /// Delivers the next message to a requester, if it is due. Returns true if another can follow.
    /// A message whose URL the settings no longer permit is given up.
    pub fn deliver_next(
        &self,
        requester: &str,
        send: impl FnOnce(&Outgoing) -> Result<(), String>,
    ) -> bool {
        let Some(outgoing) = self.begin(requester) else {
            return false;
        };
        let known = self.config.requesters.iter();
        let mut known = known.filter(|one| one.nsa == requester);
        let is_permitted = known.any(|one| one.permits(&outgoing.url));
        let sent = if is_permitted {
            send(&outgoing)
        } else {
            Err("the settings do not permit its URL".to_owned())
        };
        let is_last = !is_permitted || outgoing.attempts + 1 >= ATTEMPTS_MAX;
        self.settle(outgoing, &sent, is_last)
    }

    /// Notes the result of a delivery. Returns true if the next message can be sent.
    fn settle(&self, mut outgoing: Outgoing, sent: &Result<(), String>, is_last: bool) -> bool {
        let now = self.now();
        let mut state = self.lock();
        state.sending.remove(&outgoing.nth);
        if state.outbox.get(&outgoing.nth) != Some(&outgoing) {
            // another delivery has settled it
            return sent.is_ok();
        }
        let mut change = Change::default();
        if let Err(why) = sent {
            let Outgoing { name, url, .. } = &outgoing;
            warn!("cannot deliver {name} to {url}: {why}");
            outgoing.attempts += 1;
            let pause = PAUSE << outgoing.attempts.min(PAUSE_SHIFT_MAX);
            outgoing.next = Timestamp(now.0.saturating_add(pause));
        }
        if sent.is_ok() {
            change.delivered.push(outgoing.nth);
        } else if is_last {
            change.delivered.push(outgoing.nth);
            if let Some((connection, notification)) = undelivered(&state, &outgoing, now) {
                // the report of a lost report would follow itself without end
                if outgoing.name != notification.name() {
                    let report = Message::Notification(Box::new(notification));
                    let report = self.result(&connection, None, report);
                    let to = (connection.requester.as_str(), connection.id.as_str());
                    change
                        .outgoing
                        .push(self.outgoing_result(&state, to, &report));
                }
                change.connection = Some(connection);
            }
        } else {
            change.outgoing.push(outgoing);
        }
        let written = self.apply(&mut state, change);
        if let Err(why) = &written {
            warn!("cannot note a delivery: {why}");
        }
        sent.is_ok() && written.is_ok()
    }
}

/// Maximum number of deliveries of a message.
pub const ATTEMPTS_MAX: u32 = 8;
/// Maximum number of messages that are delivered in one call.
const TURN_MAX: usize = 100;
/// Half of the first pause, in nanoseconds.
const PAUSE: u64 = 500_000_000;
const PAUSE_SHIFT_MAX: u32 = 6;
