//! The list on the sending side: what is found is told, and what is wanted of it is heard.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::control::{Frame, Stream};
use lighthaul_io::disk::Look;
use lighthaul_io::error::Error as World;

use super::queue::{Item, Queue};
use super::walk::{Found, Walk};
use crate::board::Board;
use crate::crew::{Crew, LOOK};
use crate::error::{Code, Error};
use crate::manifest::{Entry, Kind, pack};
use crate::message::{Listing, decode};
use crate::session::Session;
use crate::watch::Sight;

/// Entries in a chunk of the list.
const CHUNK: usize = 1000;
/// Octets of paths in a chunk of the list, after which it is full.
const CHUNK_BYTES: usize = 1 << 19;
/// A chunk that is not full leaves after this.
const FLUSH: Duration = Duration::from_millis(20);

/// What both threads of the list need.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(crate) crew: &'a Crew,
    pub(crate) session: &'a Session,
    pub(crate) stream: &'a Stream,
    pub(crate) queue: &'a Queue,
    pub(crate) board: &'a Board,
}

impl Scan<'_> {
    /// Tells all that `walk` finds.
    pub(crate) fn tell(&self, walk: Walk) -> Result<(), Error> {
        self.say(&Listing::Begin(walk.named))?;
        let mut chunk = Chunk::default();
        for found in walk {
            match found {
                Found::Entry(entry, place) => {
                    let item = matches!(entry.kind, Kind::File(_)).then(|| Item {
                        place,
                        look: Look {
                            size: entry.size(),
                            seconds: entry.seconds,
                            nanos: entry.nanos,
                        },
                    });
                    self.queue.list(self.crew, item)?;
                    chunk.bytes += entry.path.len() + 64;
                    chunk.entries.push(entry);
                }
                Found::Skipped(text) => {
                    self.board.show(Sight::Warning(format!("left out: {text}")));
                    self.say(&Listing::Skipped(text))?;
                }
                Found::Failed(error) => {
                    self.say(&Listing::Unreadable(error.code as u8, error.text.clone()))?;
                    self.board.show(Sight::Failed(error.code as u8, error.text));
                }
            }
            let now = self.session.clock.now();
            let full = chunk.entries.len() >= CHUNK || chunk.bytes >= CHUNK_BYTES;
            if full || now.since(chunk.begun) >= FLUSH {
                self.flush(&mut chunk)?;
                chunk.begun = now;
            }
        }
        self.flush(&mut chunk)?;
        self.queue.close();
        self.say(&Listing::End)
    }

    fn flush(&self, chunk: &mut Chunk) -> Result<(), Error> {
        self.crew.check()?;
        if !chunk.entries.is_empty() {
            self.say(&Listing::Entries(pack(&chunk.entries)?))?;
            chunk.entries.clear();
            chunk.bytes = 0;
        }
        Ok(())
    }

    fn say(&self, listing: &Listing) -> Result<(), Error> {
        Ok(self.stream.send(&Frame::message(listing.encode()))?)
    }

    /// Hears what is wanted, until the receiver has looked at everything.
    pub(crate) fn hear(&self) -> Result<(), Error> {
        while !self.queue.is_judged() {
            let until = self.session.clock.now() + LOOK;
            let frame = match self.stream.receive(self.session.clock, until) {
                Err(World::TimedOut(_)) => {
                    self.crew.check()?;
                    continue;
                }
                frame => frame?,
            };
            let Ok(Listing::Wanted(wanted)) = decode(&frame.octets) else {
                return Err(Error::new(Code::Protocol, "the peer spoke out of turn"));
            };
            self.queue.want(wanted)?;
        }
        Ok(())
    }
}

/// Entries that have not been told yet.
struct Chunk {
    entries: Vec<Entry>,
    bytes: usize,
    begun: Instant,
}

impl Default for Chunk {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            bytes: 0,
            begun: Instant::ZERO,
        }
    }
}
