//! Queue of messages to requesters.
//!
//! Each URL of a requester receives its messages in their order, one at a time. URLs do not wait for each other: up to
//! [`LANES`] messages of a requester are sent at one time, and one lane is kept for URLs that answer.
//!
//! A failed delivery is repeated after a growing pause. After [`ATTEMPTS_MAX`] failures, or after three if ten minutes
//! have passed, the message is given up, and its connection keeps a `messageDeliveryTimeout` for queries. That is sent
//! as well, so that a requester that answers again learns which message it lacks. If too many messages wait, the oldest
//! one of the URL with the most is given up. Its connection keeps the same note, which is not sent, since the queue is
//! full.
//!
//! Deliveries do not depend on the store. While it fails, as on a full disk, a delivered message is not sent again, and a
//! failed delivery is repeated after the same pauses.

use std::collections::BTreeSet;

use lighthaul_booking_client::json::Timestamp;
use tracing::warn;

use super::outgoing::Outgoing;
use super::state::{Change, Provider, State, undelivered};
use crate::message::Message;

impl Provider {
    /// Returns the message to a requester that is sent next, if one is due.
    pub fn outgoing(&self, requester: &str) -> Option<Outgoing> {
        self.first_due(&self.lock(), requester)
    }

    /// Returns the oldest due message of a URL that answers, or else of another URL, unless its lanes are in use.
    fn first_due(&self, state: &State, requester: &str) -> Option<Outgoing> {
        let now = self.now();
        let waiting = state.outbox.values();
        let waiting =
            waiting.filter(|one| one.requester == requester && !state.delivered.contains(&one.nth));
        let (mut urls, mut failing, mut heads) = (BTreeSet::new(), 0, Vec::new());
        for one in waiting.filter(|one| urls.insert(one.url.as_str())) {
            let is_failing = state.failing.contains(&one.url);
            if state.sending.contains(&one.nth) {
                failing += usize::from(is_failing);
            } else {
                heads.push((is_failing, one));
            }
        }
        // a message that is due after more than the longest pause was queued before the clock was set
        // back
        let latest = now.0.saturating_add(PAUSE << PAUSE_SHIFT_MAX);
        let is_due = |one: &Outgoing| one.next <= now || one.next.0 > latest;
        let has_lane = failing + 1 < LANES;
        let due = heads.into_iter();
        let due = due.filter(|(is_failing, one)| is_due(one) && (!is_failing || has_lane));
        let first = due.min_by_key(|(is_failing, one)| (*is_failing, one.nth));
        first.map(|(_, one)| one.clone())
    }

    /// Returns the message to a requester that is sent next, if one is due. It keeps its place until it is settled.
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

    /// Delivers the next message to a requester, if one is due. Returns true if one was tried, so that another can
    /// follow. A message whose URL the settings no longer permit is given up.
    pub fn deliver_next(
        &self,
        requester: &str,
        send: impl FnOnce(&Outgoing) -> Result<(), String>,
    ) -> bool {
        self.note_delivered();
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
        self.settle(outgoing, &sent, is_last);
        true
    }

    /// Removes delivered messages from a store that has failed, once it works again.
    fn note_delivered(&self) {
        let now = self.now();
        let mut state = self.lock();
        if state.delivered.is_empty() || state.note_at > now {
            return;
        }
        if let Err(why) = self.apply(&mut state, Change::default()) {
            warn!("cannot note deliveries: {why}");
            state.note_at = Timestamp(now.0.saturating_add(NOTE_PAUSE));
        }
    }

    /// Notes the result of a delivery.
    fn settle(&self, mut outgoing: Outgoing, sent: &Result<(), String>, is_last: bool) {
        let now = self.now();
        let is_last = is_last || outgoing.is_old(now);
        let mut state = self.lock();
        state.sending.remove(&outgoing.nth);
        if state.outbox.get(&outgoing.nth) != Some(&outgoing) {
            // another delivery has settled it
            return;
        }
        let (nth, mut change) = (outgoing.nth, Change::default());
        if let Err(why) = sent {
            outgoing.attempts += 1;
            let pause = PAUSE << outgoing.attempts.min(PAUSE_SHIFT_MAX);
            outgoing.next = Timestamp(now.0.saturating_add(pause));
            warn_of_failure(&outgoing, why, is_last);
            state.failing.insert(outgoing.url.clone());
        } else {
            state.failing.remove(&outgoing.url);
        }
        if sent.is_ok() {
            change.delivered.push(nth);
        } else if is_last {
            change.delivered.push(nth);
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
            change.outgoing.push(outgoing.clone());
        }
        let written = self.apply(&mut state, change);
        if let Err(why) = &written {
            warn!("cannot note a delivery: {why}");
            if sent.is_ok() {
                state.delivered.insert(nth);
                state.note_at = Timestamp(now.0.saturating_add(NOTE_PAUSE));
            } else {
                state.outbox.insert(nth, outgoing);
            }
        }
    }
}

/// Logs a failed delivery. The log says if the message is given up, and how the requester still finds it.
fn warn_of_failure(outgoing: &Outgoing, why: &str, is_last: bool) {
    let Outgoing {
        name,
        url,
        attempts,
        connection_id,
        ..
    } = outgoing;
    if !is_last {
        warn!("cannot deliver {name} to {url}: {why}");
    } else if connection_id.is_empty() {
        warn!(
            "gives up {name} to {url} after {attempts} attempts: {why}; the requester can ask again"
        );
    } else {
        warn!(
            connection = connection_id,
            "gives up {name} to {url} after {attempts} attempts: {why}; the requester finds it with queryNotification and \
             queryResult"
        );
    }
}

/// Maximum number of deliveries of a message.
pub const ATTEMPTS_MAX: u32 = 8;
/// Number of messages to one requester that are sent at one time, each to another URL.
pub const LANES: usize = 4;
/// Maximum number of messages that are delivered in one call.
const TURN_MAX: usize = 100;
/// Half of the first pause, in nanoseconds.
const PAUSE: u64 = 500_000_000;
const PAUSE_SHIFT_MAX: u32 = 6;
/// Time between two attempts to note deliveries in a store that fails, in nanoseconds.
const NOTE_PAUSE: u64 = 5_000_000_000;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::outgoing::{COPIES_MAX, TRIED_MAX};
    use super::*;
    use crate::message::Envelope;
    use crate::message::body::QueryKind;
    use crate::message::query::Query;
    use crate::provider::Provider;
    use crate::provider::tests::{header, provider};

    /// Requests an answer in a message of its own.
    fn query(provider: &Provider, kind: QueryKind, nth: u32) {
        let document = Envelope::new(header(nth), Message::Query(kind, Query::default())).encode();
        let reply = provider.answer("agg", document.as_bytes());
        assert!(!reply.is_fault, "{reply:?}");
    }

    /// Delivers for this long, and returns the messages that were sent.
    fn deliver(
        (provider, clock): (&Provider, &AtomicU64),
        seconds: u64,
        sent: &Result<(), String>,
    ) -> Vec<u64> {
        let mut all = Vec::new();
        for _ in 0..2 * seconds {
            provider.deliver("urn:r", |outgoing| {
                all.push(outgoing.nth);
                sent.clone()
            });
            clock.fetch_add(PAUSE, Ordering::Relaxed);
        }
        all
    }

    #[test]
    fn failed_delivery_is_repeated_after_its_pause() {
        let (provider, clock) = provider();
        query(&provider, QueryKind::Summary, 1);
        let try_once = || {
            let mut count = 0;
            provider.deliver("urn:r", |_| {
                count += 1;
                Err("it does not answer".to_owned())
            });
            count
        };
        assert_eq!(try_once(), 1);
        for seconds in [1, 2, 4, 8, 16, 32] {
            clock.fetch_add(seconds * 1_000_000_000 - 1, Ordering::Relaxed);
            assert_eq!(try_once(), 0, "{seconds}");
            clock.fetch_add(1, Ordering::Relaxed);
            assert_eq!(try_once(), 1, "{seconds}");
        }
        // a clock that was set back delays nothing, except by less than the longest pause
        let next = provider.lock().outbox[&0].next.0;
        clock.store(next - 32_000_000_000, Ordering::Relaxed);
        assert_eq!(try_once(), 0);
        clock.store(next - 32_000_000_001, Ordering::Relaxed);
        assert_eq!(try_once(), 1);
    }

    #[test]
    fn deliveries_are_noted_again_after_a_pause() {
        let (provider, clock) = provider();
        query(&provider, QueryKind::Summary, 1);
        let second = 1_000_000_000;
        let broken = |is_broken: bool| provider.lock().store.set_broken(is_broken);
        let look = |at: u64| {
            clock.store(START + at, Ordering::Relaxed);
            provider.deliver("urn:r", |_| Ok(()));
            provider.lock().delivered.len()
        };
        broken(true);
        assert_eq!(look(0), 1);
        // it fails once more, and after that the pause begins anew
        assert_eq!(look(5 * second), 1);
        broken(false);
        assert_eq!(look(10 * second - 1), 1);
        assert_eq!(look(10 * second), 0);
        assert!(provider.lock().outbox.is_empty());
    }

    #[test]
    fn message_that_was_delivered_while_the_store_fails_is_not_sent_again() {
        let (provider, clock) = provider();
        let both = (&provider, &*clock);
        query(&provider, QueryKind::Summary, 1);
        query(&provider, QueryKind::Recursive, 2);
        provider.lock().store.set_broken(true);
        assert_eq!(deliver(both, 600, &Ok(())), [0, 1]);
        provider.lock().store.set_broken(false);
        assert_eq!(deliver(both, 6, &Ok(())), [0; 0]);
        assert!(provider.lock().outbox.is_empty());
        assert!(provider.lock().delivered.is_empty());
    }

    #[test]
    fn failed_delivery_pauses_longer_and_longer_while_the_store_fails() {
        let (provider, clock) = provider();
        let both = (&provider, &*clock);
        query(&provider, QueryKind::Summary, 1);
        provider.lock().store.set_broken(true);
        let away = Err("it does not answer".to_owned());
        let sent = deliver(both, 600, &away).len();
        // after 1, 2, 4, 8, 16 and 32 s, and then every 32 s
        assert!((15..=25).contains(&sent), "{sent}");
        provider.lock().store.set_broken(false);
        assert_eq!(deliver(both, 33, &Ok(())), [0]);
    }

    #[test]
    fn message_that_has_waited_long_still_has_three_attempts() {
        let (provider, clock) = provider();
        query(&provider, QueryKind::Summary, 1);
        // the provider did not run meanwhile
        clock.fetch_add(2 * TRIED_MAX, Ordering::Relaxed);
        let away = Err("it does not answer".to_owned());
        assert_eq!(deliver((&provider, &clock), 60, &away), [0, 0, 0]);
        assert!(provider.lock().outbox.is_empty());
    }

    #[test]
    fn query_that_is_repeated_while_its_answer_waits_is_answered_once_more_at_most() {
        for kind in [QueryKind::Summary, QueryKind::Recursive] {
            let (provider, clock) = provider();
            for _ in 0..9 {
                query(&provider, kind, 1);
            }
            query(&provider, kind, 2);
            let sent = deliver((&provider, &clock), 1, &Ok(()));
            assert_eq!(sent.len(), COPIES_MAX + 1);
            // the answer may have been lost
            query(&provider, kind, 1);
            assert_eq!(deliver((&provider, &clock), 1, &Ok(())).len(), 1);
        }
    }

    const START: u64 = 1_800_000_000_000_000_000;
}
