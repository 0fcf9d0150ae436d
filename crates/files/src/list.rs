//! List of paths that one side has and the other side walks. It is sent page by page, on request.
//!
//! Other messages on the same stream therefore never wait behind paths that the receiver has no
//! room for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, iter, thread};

use lighthaul_base::escape::escape;
use lighthaul_io::control::bounded;
use lighthaul_session::error::{Error, caught};
use lighthaul_session::fault::PeerFault;
use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::manifest::{PATH_MAX, safe};
use crate::object::Span;

/// Maximum number of paths in one page. With [`PATH_MAX`] octets each, they fit in a message.
pub const NAMES_MAX: usize = 200;
/// Octets of an overlong path that an error message shows.
const NAME_SHOWN: usize = 100;
/// Maximum number of pages that are requested ahead.
const PAGES_MAX: usize = 64;

/// Paths of a list. The lock lets threads share settings that contain the list.
pub struct PathList(Mutex<Box<dyn Iterator<Item = Result<ListedPath, Error>> + Send>>);

/// Path of a list, and the range of the file that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPath {
    /// Path relative to the source.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Range of the file; none for all of it.
    pub range: Option<Span>,
}

impl From<Vec<u8>> for ListedPath {
    fn from(path: Vec<u8>) -> Self {
        Self { path, range: None }
    }
}

/// Paths of a list in one message. An empty page ends the list.
pub type Page = Vec<ListedPath>;

/// Sending side of a list, with a thread that reads it. The paths may come from a slow program, and no other message
/// waits for them.
#[derive(Debug)]
pub struct ListSender {
    names: Mutex<Receiver<Result<ListedPath, Error>>>,
    /// Pages that were requested and not sent.
    requested: AtomicU64,
    /// True after the last page was sent.
    ended: AtomicBool,
}

/// Receiving side of a list.
#[derive(Debug)]
pub struct ListReceiver {
    /// Queue of pages, until the last was received.
    pages: Option<SyncSender<Page>>,
    /// Pages that were requested.
    asked: u64,
    /// Pages that were walked.
    read: Arc<AtomicU64>,
}

impl PathList {
    /// Creates a list from an iterator over paths.
    pub fn new(names: impl Iterator<Item = Result<Vec<u8>, Error>> + Send + 'static) -> Self {
        Self::of_ranges(names.map(|name| name.map(ListedPath::from)))
    }

    /// Creates a list from an iterator over paths with ranges.
    pub fn of_ranges(
        names: impl Iterator<Item = Result<ListedPath, Error>> + Send + 'static,
    ) -> Self {
        Self(Mutex::new(Box::new(names)))
    }
}

impl Iterator for PathList {
    type Item = Result<ListedPath, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let names = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        names.next()
    }
}

impl fmt::Debug for PathList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathList")
    }
}

impl ListSender {
    /// Starts a thread that reads `names`.
    pub fn start(mut names: PathList) -> Result<Self, Error> {
        let (read, come) = sync_channel(PAGES_MAX * NAMES_MAX);
        let reading = move || {
            let done = caught("list", || {
                names.by_ref().all(|name| read.send(name).is_ok());
                Ok(())
            });
            if let Err(error) = done {
                // an early end would look like a complete list
                read.send(Err(error)).ok();
            }
        };
        let thread = thread::Builder::new().name("list".into()).spawn(reading);
        thread.map_err(Fault::Thread)?;
        Ok(Self {
            names: Mutex::new(come),
            requested: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// Counts one more requested page.
    pub fn request(&self) {
        self.requested.fetch_add(1, Relaxed);
    }

    /// Returns true after the last page was sent.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Sends the paths that were read so far, as far as pages were requested and `has_room` returns true.
    pub fn send_pages(
        &self,
        has_room: impl Fn() -> bool,
        mut say: impl FnMut(Page) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while self.requested.load(Relaxed) > 0
            && !self.has_ended()
            && has_room()
            && let Some(page) = self.page()?
        {
            self.requested.fetch_sub(1, Relaxed);
            self.ended.store(page.is_empty(), Relaxed);
            say(page)?;
        }
        Ok(())
    }

    /// Returns the paths that were read so far, if any.
    fn page(&self) -> Result<Option<Page>, Error> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let first = match names.try_recv() {
            Ok(name) => name,
            Err(TryRecvError::Empty) => return Ok(None),
            Err(TryRecvError::Disconnected) => return Ok(Some(Page::new())),
        };
        let more = names.try_iter().take(NAMES_MAX - 1);
        let page: Page = iter::once(first).chain(more).collect::<Result<_, _>>()?;
        match page.iter().find(|name| name.path.len() > PATH_MAX) {
            None => Ok(Some(page)),
            Some(name) => {
                let name = escape(&String::from_utf8_lossy(&name.path), NAME_SHOWN).into_owned();
                Err(Fault::ListName(name).into())
            }
        }
    }
}

impl ListReceiver {
    /// Creates the receiving side of a list, and the paths that it will receive.
    pub fn new() -> (Self, PathList) {
        let (pages, come) = sync_channel::<Page>(PAGES_MAX);
        let read = Arc::<AtomicU64>::default();
        let list = Self {
            pages: Some(pages),
            asked: 0,
            read: Arc::clone(&read),
        };
        let names = come.into_iter().flat_map(move |page| {
            read.fetch_add(1, Relaxed);
            page.into_iter().map(Ok)
        });
        (list, PathList::of_ranges(names))
    }

    /// Requests as many pages as fit into memory.
    pub fn request_pages(
        &mut self,
        mut ask: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        while self.pages.is_some() && self.asked < self.read.load(Relaxed) + PAGES_MAX as u64 {
            self.asked += 1;
            ask()?;
        }
        Ok(())
    }

    /// Adds a page to the queue. It must have been requested, and its paths must stay below the
    /// source.
    pub fn receive(&mut self, page: Page) -> Result<(), Error> {
        let invalid = || PeerFault::Invalid("an invalid page of the list of files");
        let pages = self.pages.as_ref().ok_or_else(invalid)?;
        if page.is_empty() {
            self.pages = None;
            return Ok(());
        }
        let page: Option<Page> = page.into_iter().map(checked).collect();
        match pages.try_send(page.ok_or_else(invalid)?) {
            // a walk that stopped reading has failed, or was stopped
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(invalid().into()),
        }
    }
}

/// Returns the path of a peer, if it stays below the source and its range has bytes.
fn checked(ListedPath { path, range }: ListedPath) -> Option<ListedPath> {
    let path = safe(path)?;
    let has_bytes = range.is_none_or(|(from, till)| from < till);
    has_bytes.then_some(ListedPath { path, range })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lighthaul_session::error::Code;

    fn page(names: &[&str]) -> Page {
        let paths = names.iter().map(|name| name.as_bytes().to_vec());
        paths.map(ListedPath::from).collect()
    }

    #[test]
    fn long_list_arrives_in_order_and_at_the_speed_of_the_walk() {
        let all: Vec<_> = (0..30_000)
            .map(|nth| nth.to_string().into_bytes())
            .collect();
        let sender = ListSender::start(PathList::new(all.clone().into_iter().map(Ok))).unwrap();
        let (mut receiver, mut names) = ListReceiver::new();
        let (mut come, mut walked) = (0, Page::new());
        while !sender.has_ended() {
            receiver
                .request_pages(|| {
                    sender.request();
                    Ok(())
                })
                .unwrap();
            let take = |page: Page| {
                come += page.len();
                receiver.receive(page)
            };
            sender.send_pages(|| true, take).unwrap();
            let there = come - walked.len();
            walked.extend(names.by_ref().take(there).map(Result::unwrap));
        }
        let all: Page = all.into_iter().map(ListedPath::from).collect();
        assert!(walked == all, "{} of {}", walked.len(), all.len());
    }

    #[test]
    fn panic_while_reading_a_list_is_an_internal_error() {
        let names = iter::repeat_with(|| panic!("broken on purpose"));
        let sender = ListSender::start(PathList::new(names)).unwrap();
        sender.request();
        let error = loop {
            if let Err(error) = sender.send_pages(|| true, |page| panic!("{page:?}")) {
                break error;
            }
            thread::yield_now();
        };
        assert_eq!(error.code(), Code::Internal, "{error}");
    }

    #[test]
    fn pages_are_sent_only_on_request_with_space_and_before_the_end() {
        let sender = ListSender::start(PathList::new(iter::once(Ok(b"x".to_vec())))).unwrap();
        let silence = |page: Page| panic!("{page:?}");
        sender.send_pages(|| true, silence).unwrap();
        (0..9).for_each(|_| sender.request());
        sender.send_pages(|| false, silence).unwrap();
        let mut pages = Vec::new();
        while !sender.has_ended() {
            let keep = |page| {
                pages.push(page);
                Ok(())
            };
            sender.send_pages(|| true, keep).unwrap();
        }
        assert_eq!(pages, [page(&["x"]), page(&[])]);
        sender.send_pages(|| true, silence).unwrap();
        let (mut receiver, names) = ListReceiver::new();
        for page in pages {
            receiver.receive(page).unwrap();
        }
        assert_eq!(names.map(Result::unwrap).collect::<Page>(), page(&["x"]));
        assert!(receiver.receive(page(&["y"])).is_err(), "it has ended");
    }

    #[test]
    fn list_with_unsafe_paths_or_unrequested_pages_is_rejected() {
        for name in ["../x", "/x", "a/../b", ""] {
            assert!(
                ListReceiver::new().0.receive(page(&[name])).is_err(),
                "{name:?}"
            );
        }
        let empty = ListedPath {
            path: b"x".to_vec(),
            range: Some((7, 7)),
        };
        assert!(ListReceiver::new().0.receive(vec![empty]).is_err());
        let (mut receiver, _names) = ListReceiver::new();
        let taken = (0..=PAGES_MAX).map(|_| receiver.receive(page(&["x"])).is_ok());
        let taken: Vec<_> = taken.collect();
        assert!(taken[..PAGES_MAX].iter().all(|taken| *taken) && !taken[PAGES_MAX]);
    }
}
