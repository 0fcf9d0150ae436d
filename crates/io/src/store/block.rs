//! Page-aligned memory, which direct I/O moves between disk and memory without a copy.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Alignment in bytes that direct I/O requires of addresses, offsets and lengths.
pub const PAGE: usize = 4096;

/// Size in bytes of a huge page. Larger blocks ask for huge pages, which need fewer page-table
/// walks.
const HUGE_PAGE: usize = 2 << 20;

/// Page-aligned memory, initially zero. Aligned to 2 MiB if it is at least that long.
pub struct Block {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a block owns its memory, as a Vec does.
unsafe impl Send for Block {}
// SAFETY: shared access only reads.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates `len` zero bytes. Panics if `len` is zero.
    pub fn new(len: usize) -> Self {
        let layout = layout(len);
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        if layout.align() == HUGE_PAGE {
            // The kernel may ignore this hint; small pages work too.
            // SAFETY: the range is ours, and the advice does not change what it holds.
            unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
        Self { start, len }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the memory came from alloc_zeroed with this very layout.
        unsafe { dealloc(self.start.as_ptr(), layout(self.len)) };
    }
}

impl Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: start points at len initialized bytes that we own.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and we are borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.len)
    }
}

fn layout(len: usize) -> Layout {
    assert!(len > 0, "a block has bytes");
    let align = if len < HUGE_PAGE { PAGE } else { HUGE_PAGE };
    Layout::from_size_align(len, align).expect("a block fits in memory")
}
