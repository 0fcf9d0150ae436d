//! Answers to queries. Synchronous ones are in the response, the others in a message of their own.

use super::config::Requester;
use super::connection::{Connection, StoredResult};
use super::outgoing::COPIES_MAX;
use super::state::{Change, Provider};
use crate::message::body::{QueryKind, ResultEntry};
use crate::message::query::Query;
use crate::message::{Envelope, ErrorId, Header, Message, ServiceException};

impl Provider {
    /// Answers a query, or queues the answer.
    pub(super) fn query(
        &self,
        requester: &Requester,
        header: &Header,
        message: &Message,
    ) -> Result<Message, ServiceException> {
        let (is_sync, id, answer) = self.find(requester, message)?;
        if is_sync {
            return Ok(answer);
        }
        let url = self.check_reply_to(requester, header)?;
        let name = answer.name();
        let document = Envelope::new(header.confirmation(), answer).encode();
        let result = StoredResult {
            id: 0,
            correlation_id: header.correlation_id.clone(),
            at: self.now(),
            url,
            name: name.to_owned(),
            document,
        };
        let mut state = self.lock();
        let waiting = state.outbox.values();
        let waiting = waiting.filter(|one| one.requester == requester.nsa);
        let copies = waiting.clone();
        let copies = copies.filter(|one| one.correlation_id == header.correlation_id);
        // a query that is repeated while its answer waits needs no further one
        if copies.count() >= COPIES_MAX {
            return Ok(Message::Acknowledgment);
        }
        let lengths = waiting.map(|one| (one.url == result.url, one.document.len()));
        let (mut here, mut all) = (0, 0);
        for (is_here, length) in lengths {
            here += if is_here { length } else { 0 };
            all += length;
        }
        // a URL that does not answer leaves room for the others
        if here > OUTBOX_MAX || all > OUTBOXES_MAX {
            let text = "more than 8 MiB wait for this replyTo, or 32 MiB for the requester: receive them, and ask again";
            return Err(self.exception(ErrorId::ResourceUnavailable, text));
        }
        let outgoing = vec![self.outgoing_result(&state, (&requester.nsa, &id), &result)];
        self.write(
            &mut state,
            Change {
                outgoing,
                ..Change::default()
            },
        )?;
        drop(state);
        self.wake();
        Ok(Message::Acknowledgment)
    }

    /// Returns the answer to a query, with its connection, and true if it belongs in the response.
    fn find(
        &self,
        requester: &Requester,
        message: &Message,
    ) -> Result<(bool, String, Message), ServiceException> {
        let state = self.lock();
        if let Message::Query(kind, query) = message {
            let all = state.connections.values();
            let all = all.filter(|one| one.requester == requester.nsa && is_meant(query, one));
            let all = all.map(|one| one.summary());
            let answer = self.collect(all, |all| Message::QueryConfirmed(*kind, all))?;
            let is_sync = *kind == QueryKind::SummarySync;
            return Ok((is_sync, String::new(), answer));
        }
        if let Message::QueryNotification(is_sync, range) = message {
            let connection = self.connection(&state, requester, &range.connection_id)?;
            let all = connection.notifications.iter();
            let all = all.filter(|one| range.has(one.id)).cloned();
            let wrap = |all| Message::QueryNotificationConfirmed(*is_sync, all);
            let answer = self.collect(all, wrap)?;
            return Ok((*is_sync, connection.id.clone(), answer));
        }
        let Message::QueryResult(is_sync, range) = message else {
            return Ok((true, String::new(), Message::Acknowledgment));
        };
        let connection = self.connection(&state, requester, &range.connection_id)?;
        let all = connection.results.iter().filter(|one| range.has(one.id));
        let all = all.filter_map(|one| {
            let envelope = Envelope::decode(one.document.as_bytes(), DOCUMENT_MAX).ok()?;
            Some(ResultEntry {
                id: one.id,
                correlation_id: one.correlation_id.clone(),
                at: one.at,
                message: envelope.message,
            })
        });
        let answer = self.collect(all, |all| Message::QueryResultConfirmed(*is_sync, all))?;
        Ok((*is_sync, connection.id.clone(), answer))
    }

    /// Returns the answer with all entries, which must not be longer than [`ANSWER_MAX`].
    fn collect<T: Clone>(
        &self,
        entries: impl Iterator<Item = T>,
        wrap: impl Fn(Vec<T>) -> Message,
    ) -> Result<Message, ServiceException> {
        let length = |entries| {
            let (header, message) = (None, wrap(entries));
            Envelope { header, message }.encode().len()
        };
        let empty = length(Vec::new());
        let (mut kept, mut total) = (Vec::new(), empty);
        for entry in entries {
            total += length(vec![entry.clone()]).saturating_sub(empty);
            if total > ANSWER_MAX {
                let text = "the answer would be longer than 256 KiB: ask for fewer connection IDs, \
                    or for a range";
                return Err(self.exception(ErrorId::ResourceUnavailable, text));
            }
            kept.push(entry);
        }
        Ok(wrap(kept))
    }
}

/// Returns true if a query selects a connection.
fn is_meant(query: &Query, connection: &Connection) -> bool {
    let is_listed = query.connection_ids.contains(&connection.id);
    let global_id = connection.global_id.as_ref();
    let is_named = global_id.is_some_and(|id| query.global_ids.contains(id));
    let is_any = query.connection_ids.is_empty() && query.global_ids.is_empty();
    let since = query.modified_since;
    (is_any || is_listed || is_named) && since.is_none_or(|since| connection.changed >= since)
}

/// Maximum length of an answer in bytes.
const ANSWER_MAX: usize = 256 << 10;
/// Maximum length of the messages that wait for a URL that is to get another, in bytes.
const OUTBOX_MAX: usize = 8 << 20;
/// Maximum length of the messages that wait for a requester that asks for another, in bytes.
const OUTBOXES_MAX: usize = 32 << 20;
/// Maximum length of a confirmation that this provider sends.
const DOCUMENT_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::tests::{connection, header, provider};

    #[test]
    fn answer_of_the_maximum_length_is_given() {
        let (provider, _) = provider();
        let answer = |description: usize| {
            let mut one = connection();
            one.description = Some("d".repeat(description));
            let all = std::iter::once(one.summary());
            let wrap = |all| Message::QueryConfirmed(QueryKind::Summary, all);
            let message = provider.collect(all, wrap).map_err(|why| why.id)?;
            let header = None;
            Ok(Envelope { header, message }.encode().len())
        };
        let rest = answer(1).unwrap() - 1;
        assert_eq!(answer(ANSWER_MAX - rest), Ok(ANSWER_MAX));
        let longer = answer(ANSWER_MAX - rest + 1);
        assert_eq!(longer, Err(ErrorId::ResourceUnavailable));
    }

    #[test]
    fn query_is_refused_once_too_much_waits_for_its_url_or_its_requester() {
        let (provider, _) = provider();
        let wait = |url: &str| {
            let result = StoredResult {
                id: 0,
                correlation_id: "another".to_owned(),
                at: provider.now(),
                url: url.to_owned(),
                name: "querySummaryConfirmed".to_owned(),
                document: "d".repeat(OUTBOX_MAX),
            };
            let mut state = provider.lock();
            let waiting = provider.outgoing_result(&state, ("urn:r", "none"), &result);
            state.outbox.insert(waiting.nth, waiting);
        };
        let ask = |nth: u32, url: &str| {
            let query = Message::Query(QueryKind::Summary, Query::default());
            let header = Header {
                reply_to: Some(url.to_owned()),
                ..header(nth)
            };
            let document = Envelope::new(header, query).encode();
            provider.answer("agg", document.as_bytes()).is_fault
        };
        wait("http://r/x");
        assert!(!ask(1, "http://r/x"));
        // the answer to the first query is too much
        assert!(ask(2, "http://r/x"));
        // a URL that does not answer leaves room for the others
        assert!(!ask(3, "http://r/y"));
        wait("http://r/v");
        wait("http://r/w");
        assert!(!ask(4, "http://r/z"));
        wait("http://r/u");
        assert!(ask(5, "http://r/z"));
    }
}
