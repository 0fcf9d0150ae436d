//! One session in this gateway: the socket of a program, and the bytes that wait on either side of it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use crc_fast::{CrcAlgorithm, Digest};
use lighthaul_io::net::tcp::pace_where_far;
use lighthaul_proto::slabs::SessionId;
use socket2::Socket;
use tracing::debug;

use crate::host_shares::HostShare;
use crate::page_pool::{Page, PagePool, SealedPage};
use crate::session_relay::RelayEnd;

/// A session that has a socket.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The program, once there is one.
    pub(crate) socket: Option<Socket>,
    /// The program is another gateway's link, on which the session goes on.
    pub(crate) relay: Option<RelayEnd>,
    /// Its part of its host's share, if it is a program's.
    pub(crate) share: Option<HostShare>,
    pub(crate) from_program: FromProgram,
    pub(crate) to_program: ToProgram,
}

/// What the program says.
#[derive(Debug)]
pub(crate) struct FromProgram {
    /// The socket may have something.
    pub(crate) is_ready: bool,
    /// A page that is not full; it waits for more while others wait before it.
    tail: Option<Page>,
    /// Pages that wait for a slab.
    pub(crate) waiting: VecDeque<SealedPage>,
    /// The lengths of those of which the link does not know.
    fresh: Vec<u32>,
    digest: Digest,
    /// The program has said all.
    ended: bool,
    /// The link knows.
    pub(crate) told_end: bool,
}

/// What the program is told.
#[derive(Debug)]
pub(crate) struct ToProgram {
    /// The socket may have room.
    pub(crate) is_ready: bool,
    /// Pieces that came before their turn, by their offset.
    early: BTreeMap<u64, Piece>,
    /// Up to where all came.
    reached: u64,
    waiting: VecDeque<Page>,
    /// Bytes of the first of them that the socket has taken.
    taken: usize,
    written: u64,
    digest: Digest,
    end: Option<u64>,
    /// The program was told that this is all.
    shut: bool,
}

/// A record's bytes.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) pages: Vec<Page>,
    pub(crate) end: Option<u64>,
}

/// What came of writing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    /// Pages that are free again.
    pub(crate) pages: u64,
}

impl Session {
    pub(crate) fn new(id: SessionId) -> Self {
        Self {
            id,
            socket: None,
            relay: None,
            share: None,
            from_program: FromProgram {
                is_ready: false,
                tail: None,
                waiting: VecDeque::new(),
                fresh: Vec::new(),
                digest: Digest::new(CrcAlgorithm::Crc64Nvme),
                ended: false,
                told_end: false,
            },
            to_program: ToProgram {
                is_ready: false,
                early: BTreeMap::new(),
                reached: 0,
                waiting: VecDeque::new(),
                taken: 0,
                written: 0,
                digest: Digest::new(CrcAlgorithm::Crc64Nvme),
                end: None,
                shut: false,
            },
        }
    }

    /// There is a program, whose socket does not block. Should this process die, it sees a reset, never an end that
    /// was none.
    pub(crate) fn connect(&mut self, socket: Socket) -> io::Result<()> {
        if self.relay.is_none() {
            socket.set_tcp_nodelay(true)?;
            socket.set_linger(Some(Duration::ZERO))?;
            // what its host has no place for stays here, where it is counted
            socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
            pace_where_far(&socket);
        }
        self.socket = Some(socket);
        self.from_program.is_ready = true;
        self.to_program.is_ready = true;
        Ok(())
    }

    /// Whether its program has reset the connection; who reads it hears so anyway.
    pub(crate) fn is_reset(&self) -> bool {
        let error = self.socket.as_ref().map(Socket::take_error);
        matches!(error, Some(Ok(Some(_)) | Err(_)))
    }

    /// Says something to the program before what the other side does.
    pub(crate) fn say(&mut self, octets: &[u8]) {
        if let Some(socket) = &mut self.socket
            && let Err(error) = socket.write_all(octets)
        {
            debug!("session {} was not answered: {error}", self.id);
        }
    }

    /// Parts with the program in good order: what the kernel still has for it is delivered.
    pub(crate) fn part(&mut self) {
        self.relay = None;
        if let Some(socket) = self.socket.take() {
            socket.set_linger(None).ok();
        }
    }

    /// Whether both directions are over.
    pub(crate) fn is_over(&self) -> bool {
        self.from_program.told_end && self.from_program.waiting.is_empty() && self.to_program.shut
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // who parted in good order has none
        if let Some(relay) = &self.relay {
            relay.abort();
        }
    }
}

impl FromProgram {
    /// Takes what came with the handshake.
    pub(crate) fn begin_with(&mut self, mut octets: &[u8], pool: &mut PagePool) {
        while !octets.is_empty() {
            let mut page = self.tail.take().unwrap_or_else(|| pool.take());
            let rest = page.rest();
            let count = rest.len().min(octets.len());
            rest[..count].copy_from_slice(&octets[..count]);
            page.grow(count);
            octets = &octets[count..];
            self.keep(page);
        }
    }

    /// Reads what there is, of at most so many pages; answers how many bytes.
    pub(crate) fn read(
        &mut self,
        socket: &mut Socket,
        pool: &mut PagePool,
        pages: usize,
    ) -> io::Result<u64> {
        let (mut total, mut pages) = (0, pages.min(pool.room()));
        while self.is_ready && !self.ended && (pages > 0 || self.tail.is_some()) {
            let mut fresh: Vec<Page> = self.tail.take().into_iter().collect();
            let more = pages.min(READ_PAGES);
            fresh.extend((0..more).map(|_| pool.take()));
            let mut slices: Vec<IoSliceMut<'_>> = fresh
                .iter_mut()
                .map(|page| IoSliceMut::new(page.rest()))
                .collect();
            let result = socket.read_vectored(&mut slices);
            let mut left = *result.as_ref().unwrap_or(&0);
            total += left as u64;
            for mut page in fresh {
                let count = left.min(page.rest().len());
                left -= count;
                page.grow(count);
                if page.len() == 0 {
                    pool.give_back(page);
                } else {
                    pages = pages.saturating_sub(usize::from(page.is_full()));
                    self.keep(page);
                }
            }
            match result {
                Ok(0) => (self.ended, self.is_ready) = (true, false),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_ready = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// The lengths of pages that have become ready for a slab: full ones, and the last, if none waits before it.
    pub(crate) fn supplies(&mut self) -> Vec<u32> {
        if (self.ended || self.waiting.is_empty())
            && let Some(page) = self.tail.take()
        {
            self.close(page);
        }
        std::mem::take(&mut self.fresh)
    }

    /// The digest of all, once all was supplied; fails if the other half of the session knows of another.
    pub(crate) fn end(&mut self, relay: Option<&RelayEnd>) -> io::Result<Option<u64>> {
        if !self.ended || self.told_end || self.tail.is_some() {
            return Ok(None);
        }
        let digest = self.digest.finalize();
        if relay.is_some_and(|relay| !relay.matches(digest)) {
            return Err(io::Error::other("the session broke off on another link"));
        }
        self.told_end = true;
        Ok(Some(digest))
    }

    /// All pages that wait; nobody will send them.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Page> {
        let waiting = self.waiting.drain(..).map(|closed| closed.page);
        waiting.chain(self.tail.take())
    }

    fn keep(&mut self, page: Page) {
        if page.is_full() {
            self.close(page);
        } else {
            self.tail = Some(page);
        }
    }

    fn close(&mut self, page: Page) {
        self.digest.update(page.bytes());
        self.fresh.push(page.len() as u32);
        self.waiting.push_back(page.close());
    }
}

impl ToProgram {
    /// Takes a piece that came, be it before its turn; answers how many pages are free again.
    pub(crate) fn take(&mut self, offset: u64, piece: Piece, pool: &mut PagePool) -> u64 {
        let mut emptied = 0;
        self.early.insert(offset, piece);
        while let Some(piece) = self.early.remove(&self.reached) {
            for page in piece.pages {
                self.reached += page.len() as u64;
                self.digest.update(page.bytes());
                self.waiting.push_back(page);
                emptied += self.merge(pool);
            }
            self.end = piece.end.or(self.end);
        }
        emptied
    }

    /// Moves the last page's bytes to the one before if they fit there, so that many small pieces for a program that does not read
    /// take no more memory than few large ones; answers how many pages that freed.
    fn merge(&mut self, pool: &mut PagePool) -> u64 {
        let mut last_two = self.waiting.iter_mut().rev();
        let (Some(last), Some(before)) = (last_two.next(), last_two.next()) else {
            return 0;
        };
        let rest = before.rest();
        if rest.len() < last.len() {
            return 0;
        }
        rest[..last.len()].copy_from_slice(last.bytes());
        before.grow(last.len());
        if let Some(last) = self.waiting.pop_back() {
            pool.recycle(last);
        }
        1
    }

    /// Bytes that the socket has taken.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Whether the program has taken all that came in order.
    pub(crate) fn is_drained(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes what the socket takes; shuts it when that was all.
    pub(crate) fn write(
        &mut self,
        socket: &mut Socket,
        pool: &mut PagePool,
        relay: Option<&RelayEnd>,
    ) -> io::Result<Written> {
        let mut done = Written::default();
        while self.is_ready && !self.waiting.is_empty() {
            let mut skip = self.taken;
            let mut slices = [IoSlice::new(&[]); WRITE_PAGES];
            let pages = self.waiting.iter().take(WRITE_PAGES);
            let mut count = 0;
            for (slice, page) in slices.iter_mut().zip(pages) {
                *slice = IoSlice::new(&page.bytes()[skip..]);
                skip = 0;
                count += 1;
            }
            match socket.write_vectored(&slices[..count]) {
                Ok(bytes) => {
                    done.bytes += bytes as u64;
                    done.pages += self.pass(bytes, pool);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_ready = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.written += done.bytes;
        if self.waiting.is_empty() && !self.shut && self.end.is_some() {
            self.shut = true;
            let digest = self.compare()?;
            if let Some(relay) = relay {
                relay.finish(digest);
            }
            socket.shutdown(Shutdown::Write)?;
        }
        Ok(done)
    }

    /// All pages that wait; nobody will read them.
    pub(crate) fn drain(&mut self) -> Vec<Page> {
        let early = std::mem::take(&mut self.early);
        let early = early.into_values().flat_map(|piece| piece.pages);
        self.waiting.drain(..).chain(early).collect()
    }

    /// Whether what was said on the other side is what came.
    fn compare(&self) -> io::Result<u64> {
        let digest = self.digest.finalize();
        if self.end == Some(digest) {
            return Ok(digest);
        }
        Err(io::Error::other(
            "what came is not what was sent: the digests of the two ends differ",
        ))
    }

    /// The socket has taken so many bytes; answers how many pages that freed.
    fn pass(&mut self, bytes: usize, pool: &mut PagePool) -> u64 {
        self.taken += bytes;
        let mut pages = 0;
        while let Some(page) = self.waiting.front()
            && self.taken >= page.len()
        {
            self.taken -= page.len();
            if let Some(page) = self.waiting.pop_front() {
                pool.recycle(page);
            }
            pages += 1;
        }
        pages
    }
}

/// Bytes that the kernel holds for a program besides those on their way.
const UNSENT_BYTES: u32 = 256 << 10;
/// Pages that one call reads into, and writes from: about a megabyte.
const READ_PAGES: usize = 16;
const WRITE_PAGES: usize = 16;
