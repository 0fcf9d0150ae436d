//! The schema on a stream: the sender announces it, and the receiver compares it with its own.
//!
//! Each message has the number of its schema. The announcement has the text, so that a receiver can say what differs. On a
//! stream that may lose messages, or whose receiver may come later, it is repeated.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message::Message;
use crate::schema::Schema;
use crate::wire::{self, Frame};

/// Sender of the announcements of a schema.
#[derive(Debug)]
pub struct Announcer {
    announcement: Vec<u8>,
    /// Messages after which the announcement is repeated; none for once.
    every: Option<u32>,
    /// Messages since the last announcement; none before the first.
    since: Option<u32>,
}

impl Announcer {
    /// Returns an announcer that repeats the announcement after `every` messages, if that is some.
    pub fn new(schema: &Schema, every: Option<u32>) -> Self {
        Self {
            announcement: wire::announce(schema),
            every,
            since: None,
        }
    }

    /// Returns the announcement that must be sent before the next message, if one is due.
    pub fn before_message(&mut self) -> Option<&[u8]> {
        let is_due = match (self.since, self.every) {
            (None, _) => true,
            (Some(since), Some(every)) => since >= every,
            (Some(_), None) => false,
        };
        let since = if is_due { 0 } else { self.since.unwrap_or(0) };
        self.since = Some(since.saturating_add(1));
        is_due.then_some(&self.announcement)
    }
}

/// Reader of announcements and messages.
#[derive(Clone, Debug)]
pub struct Checker {
    schema: Arc<Schema>,
}

impl Checker {
    /// Returns a reader of messages of `schema`.
    pub fn new(schema: &Arc<Schema>) -> Self {
        Self {
            schema: Arc::clone(schema),
        }
    }

    /// Reads one message of a stream. Returns none for the announcement of the expected schema.
    pub fn take(&self, octets: &[u8]) -> Result<Option<Message>> {
        match wire::decode(octets)? {
            Frame::Announcement(text) => {
                let announced: Schema = text.parse()?;
                if announced == *self.schema {
                    Ok(None)
                } else {
                    Err(Error::Differs(self.schema.difference(&announced)))
                }
            }
            Frame::Message(number, values) if number == self.schema.number() => {
                Message::of_values(&self.schema, values).map(Some)
            }
            Frame::Message(..) => Err(Error::Unannounced(self.schema.name().to_owned())),
        }
    }
}

/// Messages after which a sender announces its schema again, on a stream that may lose messages.
pub const ANNOUNCED_AFTER: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> Arc<Schema> {
        Arc::new(text.parse().unwrap())
    }

    #[test]
    fn announcement_comes_first_and_is_repeated() {
        let mut once = Announcer::new(&schema("A { x: u8 }"), None);
        let due: Vec<bool> = (0..5).map(|_| once.before_message().is_some()).collect();
        assert_eq!(due, [true, false, false, false, false]);
        let mut often = Announcer::new(&schema("A { x: u8 }"), Some(2));
        let due: Vec<bool> = (0..5).map(|_| often.before_message().is_some()).collect();
        assert_eq!(due, [true, false, true, false, true]);
    }

    #[test]
    fn other_schema_is_refused_with_its_difference() {
        let (ours, theirs) = (schema("A { x: u8 }"), schema("A { x: u16 }"));
        let checker = Checker::new(&ours);
        let mut announcer = Announcer::new(&ours, None);
        assert_eq!(checker.take(announcer.before_message().unwrap()), Ok(None));
        let mut announcer = Announcer::new(&theirs, None);
        let why = checker
            .take(announcer.before_message().unwrap())
            .unwrap_err();
        assert_eq!(
            why.to_string(),
            "the sender has another schema than this program: its field x is u16, and u8 is expected; use the same schema on \
             both sides"
        );
        let mut message = Message::new(&theirs);
        message.set("x", 7_u8).unwrap();
        let why = checker.take(&message.pack().unwrap()).unwrap_err();
        assert!(matches!(why, Error::Unannounced(_)), "{why}");
    }
}
