//! Page-aligned memory, which direct I/O moves between disk and memory without a copy.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Alignment in bytes that direct I/O requires of addresses, offsets and lengths.
pub const PAGE: usize = 4096;

/// Size in bytes of a huge page. Larger blocks ask for huge pages, which need fewer page-table walks.
const HUGE_PAGE: usize = 2 << 20;

/// Page-aligned memory, initially zero. Aligned to 2 MiB if it is at least that long.
pub struct Block {
    start: NonNull<u8>,
    len: usize,
    /// Allocation that contains the memory, and its layout.
    whole: (NonNull<u8>, Layout),
}

// SAFETY: a block owns its memory, as a Vec does.
unsafe impl Send for Block {}
// SAFETY: shared access only reads.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates `len` zero bytes. Panics if `len` is zero.
    ///
    /// This aligns the start itself, so that unused pages take no memory: an aligned allocation would write zeros.
    pub fn new(len: usize) -> Self {
        assert!(len > 0, "a block has bytes");
        let align = if len < HUGE_PAGE { PAGE } else { HUGE_PAGE };
        let layout = len
            .checked_add(align)
            .and_then(|len| Layout::array::<u8>(len).ok());
        let layout = layout.expect("a block fits in memory");
        // SAFETY: the layout has a size above zero.
        let allocated = unsafe { alloc_zeroed(layout) };
        let Some(allocated) = NonNull::new(allocated) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the allocation is longer by align than the block, so that the start and the end are within.
        let start = unsafe { allocated.add(allocated.align_offset(align)) };
        if align == HUGE_PAGE {
            // The kernel may ignore this hint; small pages work too.
            // SAFETY: the range is ours, and the advice does not change what it holds.
            unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
        Self {
            start,
            len,
            whole: (allocated, layout),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let (allocated, layout) = self.whole;
        // SAFETY: the memory came from alloc_zeroed with this very layout.
        unsafe { dealloc(allocated.as_ptr(), layout) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_zero() {
        for (len, align) in [(1, PAGE), (PAGE, PAGE), (HUGE_PAGE, HUGE_PAGE)] {
            let mut block = Block::new(len);
            assert_eq!(block.as_ptr() as usize % align, 0, "{len} bytes");
            assert!(block.iter().all(|byte| *byte == 0), "{len} bytes");
            block.fill(1);
            assert_eq!(block.len(), len);
        }
    }

    #[test]
    fn large_block_takes_no_memory_before_the_first_write() {
        let block = Block::new(16 * HUGE_PAGE);
        let mut resident = vec![0_u8; block.len() / PAGE];
        let start = block.as_ptr().cast_mut().cast();
        // SAFETY: the range is ours, and the vector has a byte for each of its pages.
        let status = unsafe { libc::mincore(start, block.len(), resident.as_mut_ptr()) };
        assert_eq!(status, 0);
        assert!(resident.iter().all(|page| page & 1 == 0));
    }
}
