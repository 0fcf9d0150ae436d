//! One session at this gateway: the socket of a program or target, and the bytes that wait in both
//! directions.
//!
//! [`FromProgram`] fills pages from the socket, and [`ToProgram`] writes arrived pieces to it, in
//! order. Both limit their bytes by pages of the pool. A session ends regularly only if the digests
//! of both ends agree; otherwise the program sees a reset.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use crc_fast::{CrcAlgorithm, Digest};
use lighthaul_io::net::tcp::pace_where_far;
use lighthaul_slabs::SessionId;
use socket2::Socket;
use tracing::debug;

use crate::host_shares::HostShare;
use crate::page_pool::{Page, PagePool, SealedPage};
use crate::session_relay::RelayEnd;

/// Session with its socket. "Program" stands for the target at the egress gateway.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Socket, once it is connected.
    pub(crate) socket: Option<Socket>,
    /// Relay to another link, if the session continues on that link.
    pub(crate) relay: Option<RelayEnd>,
    /// Share of the program's host, for a program that connects to this gateway.
    pub(crate) share: Option<HostShare>,
    pub(crate) from_program: FromProgram,
    pub(crate) to_program: ToProgram,
}

/// Bytes from the program.
#[derive(Debug)]
pub(crate) struct FromProgram {
    /// True if the socket may have data.
    pub(crate) is_ready: bool,
    /// Page that is not full. It waits for more bytes while other pages wait before it.
    tail: Option<Page>,
    /// Pages that wait for a slab.
    pub(crate) waiting: VecDeque<SealedPage>,
    /// Lengths of pages that were not supplied to the link yet.
    fresh: Vec<u32>,
    digest: Digest,
    /// True if the program has ended its stream.
    ended: bool,
    /// True if the link knows the end.
    pub(crate) told_end: bool,
}

/// Bytes for the program.
#[derive(Debug)]
pub(crate) struct ToProgram {
    /// True if the socket may take more bytes.
    pub(crate) is_ready: bool,
    /// Pieces that arrived out of order, by offset.
    early: BTreeMap<u64, Piece>,
    /// Offset up to which all bytes have arrived.
    reached: u64,
    waiting: VecDeque<Page>,
    /// Bytes of the first page that were written.
    taken: usize,
    written: u64,
    digest: Digest,
    end: Option<u64>,
    /// True if the program has seen the end.
    shut: bool,
    /// Number of written bytes at the last check, if more waited, and number of earlier checks with the same result.
    checked: Option<(u64, u32)>,
}

/// Bytes of a record.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) pages: Vec<Page>,
    pub(crate) end: Option<u64>,
}

/// Result of writing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    /// Number of freed pages.
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
                checked: None,
            },
        }
    }

    /// Adds the non-blocking socket of the program. If this process dies, the program sees a reset and not a regular
    /// end.
    pub(crate) fn connect(&mut self, socket: Socket) -> io::Result<()> {
        if self.relay.is_none() {
            socket.set_tcp_nodelay(true)?;
            socket.set_linger(Some(Duration::ZERO))?;
            // further bytes stay in this process, where they are counted
            socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
            pace_where_far(&socket);
        }
        self.socket = Some(socket);
        self.from_program.is_ready = true;
        self.to_program.is_ready = true;
        Ok(())
    }

    /// Returns true if the program has reset the connection. Reading reports this too.
    pub(crate) fn is_reset(&self) -> bool {
        let error = self.socket.as_ref().map(Socket::take_error);
        matches!(error, Some(Ok(Some(_)) | Err(_)))
    }

    /// Writes octets of the gateway itself to the program, before the bytes of the other side.
    pub(crate) fn say(&mut self, octets: &[u8]) {
        if let Some(socket) = &mut self.socket
            && let Err(error) = socket.write_all(octets)
        {
            debug!("cannot answer session {}: {error}", self.id);
        }
    }

    /// Closes the socket in an orderly way: the kernel still delivers its buffers.
    pub(crate) fn part(&mut self) {
        self.relay = None;
        if let Some(socket) = self.socket.take() {
            socket.set_linger(None).ok();
        }
    }

    /// Returns true if both directions have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.from_program.told_end && self.from_program.waiting.is_empty() && self.to_program.shut
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // after a regular end, there is no relay
        if let Some(relay) = &self.relay {
            relay.abort();
        }
    }
}

impl FromProgram {
    /// Adds bytes that came with the handshake.
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

    /// Reads into at most `pages` pages. Returns the number of bytes.
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

    /// Returns the lengths of pages that are ready for a slab: full pages, and the last page if none waits before it.
    pub(crate) fn supplies(&mut self) -> Vec<u32> {
        if (self.ended || self.waiting.is_empty())
            && let Some(page) = self.tail.take()
        {
            self.close(page);
        }
        std::mem::take(&mut self.fresh)
    }

    /// Returns the digest of all bytes, once all were supplied. Fails if the other side of a relay has another digest.
    pub(crate) fn end(&mut self, relay: Option<&RelayEnd>) -> io::Result<Option<u64>> {
        if !self.ended || self.told_end || self.tail.is_some() {
            return Ok(None);
        }
        let digest = self.digest.finalize();
        if relay.is_some_and(|relay| !relay.matches(digest)) {
            return Err(io::Error::other("the session failed on another link"));
        }
        self.told_end = true;
        Ok(Some(digest))
    }

    /// Removes all waiting pages, which will not be sent.
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
    /// Adds a piece, in order or not. Returns the number of freed pages.
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

    /// Moves the last page's bytes to the page before if they fit, so that small writes take no extra memory. Returns
    /// the number of freed pages.
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

    /// Returns the number of bytes that were written.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Returns true if the program has taken all bytes that arrived in order.
    pub(crate) fn is_drained(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of pages with bytes that were not written.
    pub(crate) fn pages(&self) -> usize {
        let early = self.early.values().map(|piece| piece.pages.len());
        self.waiting.len() + early.sum::<usize>()
    }

    /// Checks if bytes wait. Returns the number of earlier checks since which the program has taken none.
    pub(crate) fn check(&mut self) -> u32 {
        let before = self.checked.take();
        if self.is_drained() {
            return 0;
        }
        let same = before.filter(|(written, _)| *written == self.written);
        let count = same.map_or(0, |(_, count)| count + 1);
        self.checked = Some((self.written, count));
        count
    }

    /// Writes as many bytes as the socket takes, and shuts the socket down at the end.
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

    /// Removes all waiting pages, which will not be read.
    pub(crate) fn drain(&mut self) -> Vec<Page> {
        let early = std::mem::take(&mut self.early);
        let early = early.into_values().flat_map(|piece| piece.pages);
        self.waiting.drain(..).chain(early).collect()
    }

    /// Compares the digests of both ends of the session.
    fn compare(&self) -> io::Result<u64> {
        let digest = self.digest.finalize();
        if self.end == Some(digest) {
            return Ok(digest);
        }
        Err(io::Error::other(
            "the received bytes differ from those that were sent",
        ))
    }

    /// Counts written bytes. Returns the number of freed pages.
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

/// Maximum number of unsent bytes in the kernel, in addition to the bytes in flight.
const UNSENT_BYTES: u32 = 256 << 10;
/// Maximum number of pages of one call: about a megabyte.
const READ_PAGES: usize = 16;
const WRITE_PAGES: usize = 16;

#[cfg(test)]
mod tests {
    use lighthaul_io::net::tcp::listen;
    use socket2::{Domain, Type};

    use super::*;

    #[test]
    fn urgent_data_of_a_program_is_read_in_order() {
        let listener = Socket::from(listen("127.0.0.1:0".parse().unwrap()).unwrap());
        listener.set_out_of_band_inline(true).unwrap();
        let mut program = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        program.connect(&listener.local_addr().unwrap()).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        program.write_all(b"hello").unwrap();
        program.send_out_of_band(b"!").unwrap();
        program.write_all(b"world").unwrap();
        program.shutdown(Shutdown::Write).unwrap();
        let (mut pool, mut session) = (PagePool::new(4, 4, 8), Session::new(SessionId([1; 16])));
        let from_program = &mut session.from_program;
        from_program.is_ready = true;
        // the socket blocks, so each read waits for bytes or the end
        let read = from_program.read(&mut accepted, &mut pool, 8).unwrap();
        assert_eq!((read, from_program.ended), (11, true));
        let pages: Vec<Page> = from_program.drain().collect();
        let bytes: Vec<u8> = pages.iter().flat_map(Page::bytes).copied().collect();
        assert_eq!(bytes, b"hello!world");
    }
}
