//! Memory of pages: outgoing pages until the other gateway has custody, incoming pages until a program has taken them.
//!
//! [`PagePool`] limits the outgoing pages of a link; credit limits the incoming ones. [`PageStore`]
//! lets the driver send and receive directly in pages, without a copy. A page in use by a batch of
//! datagrams is freed only with the batch.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::rc::Rc;

use lighthaul_base::Span;
use lighthaul_io::error::Error;
use lighthaul_io::store::Store;

use crate::crc::{CrcJoiner, crc_of};

/// Page that does not change any more, with its CRC-32C.
#[derive(Debug)]
pub(crate) struct SealedPage {
    pub(crate) page: Page,
    crc: u32,
}

/// Memory of a page with the number of its bytes.
#[derive(Debug)]
pub(crate) struct Page {
    bytes: Box<[u8]>,
    len: usize,
}

impl Page {
    /// Returns the bytes of the page.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the unused memory.
    pub(crate) fn rest(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }

    /// Adds bytes that were written to [`Page::rest`].
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.len += bytes;
        debug_assert!(self.len <= self.bytes.len());
    }

    /// Returns the number of bytes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Computes the checksum of the final page.
    pub(crate) fn close(self) -> SealedPage {
        SealedPage {
            crc: crc_of([self.bytes()]),
            page: self,
        }
    }

    /// Returns true if no unused memory is left.
    pub(crate) const fn is_full(&self) -> bool {
        self.len == self.bytes.len()
    }
}

/// All pages of a link.
#[derive(Debug)]
pub(crate) struct PagePool {
    packet_len: u64,
    page_len: usize,
    joiner: CrcJoiner,
    /// Unused memory.
    free: Vec<Box<[u8]>>,
    /// Number of pages of unused memory that were not needed recently.
    spare: usize,
    /// Number of outgoing pages.
    out: usize,
    /// Maximum number of outgoing pages.
    out_max: usize,
    /// Number of the first page in `leaving`.
    first: u64,
    leaving: VecDeque<Option<Rc<Page>>>,
    /// Number of the first page in `coming`.
    first_coming: u64,
    coming: VecDeque<Option<Box<[u8]>>>,
}

impl PagePool {
    /// Creates a pool for `out_max` outgoing pages. The credit of the link limits the incoming ones.
    pub(crate) fn new(packet_len: u32, page_len: u32, out_max: usize) -> Self {
        Self {
            packet_len: packet_len.into(),
            page_len: page_len as usize,
            joiner: CrcJoiner::new(page_len as usize),
            free: Vec::new(),
            spare: 0,
            out: 0,
            out_max,
            first: 0,
            leaving: VecDeque::new(),
            first_coming: 0,
            coming: VecDeque::new(),
        }
    }

    /// Returns the number of further outgoing pages that fit.
    pub(crate) const fn room(&self) -> usize {
        self.out_max.saturating_sub(self.out)
    }

    /// Returns the maximum number of outgoing pages.
    pub(crate) const fn size(&self) -> usize {
        self.out_max
    }

    /// Returns the number of outgoing pages.
    pub(crate) const fn held(&self) -> usize {
        self.out
    }

    /// Allocates an outgoing page.
    pub(crate) fn take(&mut self) -> Page {
        self.out += 1;
        Page {
            bytes: self.memory(),
            len: 0,
        }
    }

    /// Frees an outgoing page.
    pub(crate) fn give_back(&mut self, page: Page) {
        self.out -= 1;
        self.recycle(page);
    }

    /// Frees an incoming page.
    pub(crate) fn recycle(&mut self, page: Page) {
        self.free.push(page.bytes);
    }

    /// Numbers pages that follow each other. Returns the CRC-32C of all their bytes.
    pub(crate) fn launch(&mut self, pages: impl IntoIterator<Item = SealedPage>) -> u32 {
        pages
            .into_iter()
            .fold(0, |before, SealedPage { page, crc }| {
                let joined = self.joiner.join(before, crc, page.len());
                self.leaving.push_back(Some(Rc::new(page)));
                joined
            })
    }

    /// Frees pages of which the other gateway has custody.
    pub(crate) fn release(&mut self, pages: Range<u64>) {
        for number in pages {
            let nth = (number - self.first) as usize;
            let page = self.leaving.get_mut(nth).and_then(Option::take);
            if let Some(page) = page {
                self.out -= 1;
                // a page in use by a batch of datagrams is freed with the batch
                if let Ok(page) = Rc::try_unwrap(page) {
                    self.recycle(page);
                }
            }
        }
        while self.leaving.front().is_some_and(Option::is_none) {
            self.leaving.pop_front();
            self.first += 1;
        }
    }

    /// Returns received pages with `len` bytes in all. All but the last are full.
    pub(crate) fn collect(&mut self, pages: Range<u64>, len: u32) -> Vec<Page> {
        let mut left = len as usize;
        let mut collected = Vec::with_capacity((pages.end - pages.start) as usize);
        for number in pages {
            let nth = (number - self.first_coming) as usize;
            let bytes = self.coming.get_mut(nth).and_then(Option::take);
            let bytes = bytes.unwrap_or_else(|| self.memory());
            let len = left.min(self.page_len);
            left -= len;
            collected.push(Page { bytes, len });
        }
        collected
    }

    /// Forgets the numbers of pages below `page`, which have all been received.
    pub(crate) fn forget_below(&mut self, page: u64) {
        while self.first_coming < page && self.coming.front().is_none_or(Option::is_none) {
            self.coming.pop_front();
            self.first_coming += 1;
        }
    }

    /// Puts collected pages back, since they must be sent again.
    pub(crate) fn restore(&mut self, first: u64, pages: Vec<Page>) {
        for (number, page) in (first..).zip(pages) {
            *self.place(number) = Some(page.bytes);
        }
    }

    /// Frees half of the memory that was not needed since the last call.
    pub(crate) fn shrink(&mut self) {
        self.free.drain(..self.spare.div_ceil(2));
        self.spare = self.free.len();
    }

    fn memory(&mut self) -> Box<[u8]> {
        let free = self.free.pop();
        self.spare = self.spare.min(self.free.len());
        free.unwrap_or_else(|| vec![0; self.page_len].into())
    }

    fn place(&mut self, number: u64) -> &mut Option<Box<[u8]>> {
        let nth = number.saturating_sub(self.first_coming) as usize;
        if nth >= self.coming.len() {
            self.coming.resize_with(nth + 1, || None);
        }
        &mut self.coming[nth]
    }
}

/// Page pool as the store of the driver.
#[derive(Debug)]
pub(crate) struct PageStore {
    pool: Rc<RefCell<PagePool>>,
    packet_len: u64,
    page_packets: u64,
    /// Page that is being sent.
    sending: Option<(u64, Rc<Page>)>,
    /// Earlier pages of the same batch.
    gathered: Vec<Rc<Page>>,
    /// Page into which a packet is received.
    placing: Option<(u64, Box<[u8]>)>,
}

impl PageStore {
    pub(crate) fn new(pool: &Rc<RefCell<PagePool>>) -> Self {
        let (packet_len, page_len) = {
            let pool = pool.borrow();
            (pool.packet_len, pool.page_len as u64)
        };
        Self {
            pool: Rc::clone(pool),
            packet_len,
            page_packets: page_len / packet_len,
            sending: None,
            gathered: Vec::new(),
            placing: None,
        }
    }

    /// Returns the page of a span, and its range in the page.
    fn locate(&self, span: Span) -> (u64, Range<usize>) {
        let number = span.offset / self.packet_len;
        let from = (number % self.page_packets * self.packet_len) as usize;
        (number / self.page_packets, from..from + span.len as usize)
    }
}

impl Store for PageStore {
    fn gather(&mut self, span: Span) -> Result<&[u8], Error> {
        let (number, within) = self.locate(span);
        let is_here = matches!(&self.sending, Some((page, _)) if *page == number);
        if !is_here {
            let pool = self.pool.borrow();
            let nth = number.checked_sub(pool.first).map(|nth| nth as usize);
            let page = nth.and_then(|nth| pool.leaving.get(nth)).cloned();
            let page = page.flatten();
            let page =
                page.ok_or_else(|| Error::Store("a page was freed before it was sent".into()))?;
            if let Some((_, page)) = self.sending.replace((number, page)) {
                self.gathered.push(page);
            }
        }
        let page = self
            .sending
            .as_ref()
            .map_or(&[][..], |(_, page)| &page.bytes);
        Ok(&page[within])
    }

    fn sent(&mut self) {
        self.gathered.clear();
        self.sending = None;
    }

    fn slot(&mut self, span: Span) -> Result<Option<&mut [u8]>, Error> {
        let (number, within) = self.locate(span);
        let mut pool = self.pool.borrow_mut();
        if number < pool.first_coming {
            return Ok(None);
        }
        let bytes = mem::take(pool.place(number));
        let bytes = bytes.unwrap_or_else(|| pool.memory());
        let (_, bytes) = self.placing.insert((number, bytes));
        Ok(Some(&mut bytes[within]))
    }

    fn placed(&mut self, _span: Span) -> Result<(), Error> {
        if let Some((number, bytes)) = self.placing.take() {
            *self.pool.borrow_mut().place(number) = Some(bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(pool: &mut PagePool, octet: u8, len: usize) -> Page {
        let mut page = pool.take();
        page.rest()[..len].fill(octet);
        page.grow(len);
        page
    }

    #[test]
    fn received_pages_are_collected_and_launched_pages_are_sent() {
        let pool = Rc::new(RefCell::new(PagePool::new(4, 16, 8)));
        let mut store = PageStore::new(&pool);
        for offset in [32, 36, 16, 20, 24, 28] {
            let slot = store.slot(Span::new(offset, 4)).unwrap().unwrap();
            slot.fill(offset as u8);
            store.placed(Span::new(offset, 4)).unwrap();
        }
        let pages = pool.borrow_mut().collect(1..3, 24);
        assert_eq!(pages[0].bytes()[12..], [28; 4]);
        assert_eq!(pages[1].bytes(), [[32; 4], [36; 4]].concat());
        pool.borrow_mut().forget_below(3);
        assert!(store.slot(Span::new(16, 4)).unwrap().is_none());

        let launched = page(&mut pool.borrow_mut(), 7, 10);
        pool.borrow_mut().launch([launched.close()]);
        assert_eq!(store.gather(Span::new(8, 2)).unwrap(), [7; 2]);
        assert_eq!(pool.borrow().held(), 1);
        pool.borrow_mut().release(0..1);
        assert_eq!(pool.borrow().held(), 0);
        store.sent();
        assert!(store.gather(Span::new(0, 4)).is_err());
    }

    #[test]
    fn unused_memory_is_freed_after_a_while() {
        let mut pool = PagePool::new(4, 16, 8);
        let pages: Vec<Page> = (0..8).map(|_| pool.take()).collect();
        for page in pages {
            pool.give_back(page);
        }
        pool.shrink();
        assert_eq!(pool.free.len(), 8);
        // memory in regular use is kept
        for _ in 0..10 {
            let pages = [pool.take(), pool.take()];
            for page in pages {
                pool.give_back(page);
            }
            pool.shrink();
        }
        assert_eq!(pool.free.len(), 2);
        pool.shrink();
        pool.shrink();
        assert!(pool.free.is_empty());
    }
}
