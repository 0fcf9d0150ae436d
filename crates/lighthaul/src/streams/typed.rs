//! Streams of typed messages: packed by a schema that the programs of both sides share.

use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_packing::{ANNOUNCED_AFTER, Announcer, Checker, Message, Schema};
use lighthaul_session::error::Error;
use lighthaul_stream::frames::Frames;

use crate::client::Client;
use crate::fault::Fault;
use crate::streams::request::{Direction, StreamKind, StreamRequest};
use crate::streams::stream::{Stream, StreamSummary};

/// Running stream of typed messages, in one direction. Threads can share it.
///
/// The sender announces its schema before the first message, and each message has its number. A receiver with another
/// schema refuses the first message, and says what differs.
#[derive(Debug)]
#[must_use = "a stream that is dropped is cancelled"]
pub struct TypedStream {
    stream: Stream,
    schema: Arc<Schema>,
    announcer: Mutex<Announcer>,
    checker: Checker,
}

impl Client {
    /// Opens a stream of messages of `schema`. Both sides must have [`Frames::Prefixed`], the default.
    pub fn typed_stream(
        &self,
        request: StreamRequest,
        schema: &Arc<Schema>,
    ) -> Result<TypedStream, Error> {
        if request.frames != Frames::Prefixed {
            return Err(Fault::TypedFrames.into());
        }
        let every = match &request.kind {
            // it may be lost, or the receiver may come later
            StreamKind::Messages(_) => Some(ANNOUNCED_AFTER),
            StreamKind::Objects(_) => None,
        };
        Ok(TypedStream {
            stream: self.stream(request)?,
            schema: Arc::clone(schema),
            announcer: Mutex::new(Announcer::new(schema, every)),
            checker: Checker::new(schema),
        })
    }
}

impl TypedStream {
    /// Returns a message without values, for [`Self::send`].
    pub fn message(&self) -> Message {
        Message::new(&self.schema)
    }

    /// Sends a message of the schema of this stream. Waits while the buffer of the stream is full.
    pub fn send(&self, message: &Message) -> Result<(), Error> {
        if **message.schema() != *self.schema {
            return Err(Fault::OtherSchema.into());
        }
        let packed = message.pack().map_err(Fault::Packing)?;
        let mut announcer = self
            .announcer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // announcement and message in this order, also with several threads
        if let Some(announcement) = announcer.before_message() {
            self.stream.send(announcement)?;
        }
        self.stream.send(&packed)
    }

    /// Waits for the next message. Returns none at the end of the stream. A sender with another schema is an error.
    pub fn receive(&self) -> Result<Option<Message>, Error> {
        while let Some(octets) = self.stream.receive()? {
            if let Some(message) = self.checker.take(&octets).map_err(Fault::Packing)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Closes the input, and waits until all messages have arrived. The statistics count announcements, too.
    pub fn finish(&self) -> Result<StreamSummary, Error> {
        self.stream.finish()
    }

    /// Returns the stream that carries the messages.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns the direction of the stream.
    pub const fn direction(&self) -> Direction {
        self.stream.direction()
    }
}
