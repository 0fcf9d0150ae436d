//! Content of a block device. Pages of zeros take no memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes that a device writes atomically, unless the write is torn.
pub const PAGE: usize = 4096;

/// Content of a block device. Clones share their pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
    len: u64,
}

impl Image {
    /// Creates `len` zero bytes. Panics if `len` is not a multiple of [`PAGE`].
    pub const fn zeros(len: u64) -> Self {
        assert!(len.is_multiple_of(PAGE as u64), "whole pages");
        Self {
            pages: BTreeMap::new(),
            len,
        }
    }

    /// Reads an image from a file.
    pub fn load(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).open(path)?;
        let mut image = Self::zeros(file.metadata()?.len() / PAGE as u64 * PAGE as u64);
        let mut buffer = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < image.len {
            let part = (image.len - offset).min(buffer.len() as u64) as usize;
            file.read_exact_at(&mut buffer[..part], offset)?;
            for (nth, page) in (0..).zip(buffer[..part].chunks(PAGE)) {
                if page.iter().any(|byte| *byte != 0) {
                    image.write(offset + nth * PAGE as u64, page);
                }
            }
            offset += part as u64;
        }
        Ok(image)
    }

    /// Returns the size in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Reports whether the size is zero.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `buffer` from `offset`. Bytes behind the end are zero.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        for part in parts(offset, buffer.len()) {
            let target = &mut buffer[part.from..part.till];
            match self.pages.get(&part.page) {
                Some(page) => target.copy_from_slice(&page[part.at..part.at + target.len()]),
                None => target.fill(0),
            }
        }
    }

    /// Writes `bytes` at `offset`. Bytes behind the end are dropped.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for part in parts(offset, bytes.len()) {
            if part.page >= self.len / PAGE as u64 {
                return;
            }
            let source = &bytes[part.from..part.till];
            let page = self.pages.entry(part.page);
            let page = Arc::make_mut(page.or_insert_with(|| Arc::new([0; PAGE])));
            page[part.at..part.at + source.len()].copy_from_slice(source);
        }
    }
}

/// Part of a span of bytes that lies in one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePart {
    pub(crate) page: u64,
    /// Start within the page.
    pub(crate) at: usize,
    /// Start within the span.
    pub(crate) from: usize,
    pub(crate) till: usize,
}

/// Splits `len` bytes at `offset` into parts, one per page.
pub(crate) fn parts(offset: u64, len: usize) -> impl Iterator<Item = PagePart> {
    let mut from = 0;
    std::iter::from_fn(move || {
        if from == len {
            return None;
        }
        let place = offset + from as u64;
        let at = (place % PAGE as u64) as usize;
        let till = len.min(from + PAGE - at);
        let part = PagePart {
            page: place / PAGE as u64,
            at,
            from,
            till,
        };
        from = till;
        Some(part)
    })
}
