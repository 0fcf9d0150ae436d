//! Bytes of an answer, in memory that later answers use again. The kernel needs more time for new memory than for the
//! bytes that come into it.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of an answer. Its memory returns to the spare buffers.
#[derive(Debug, Default)]
pub struct Body(Vec<u8>);

impl Body {
    /// Returns an empty body with room for `len` bytes.
    pub fn with_room(len: usize) -> Self {
        let spare = (len >= LARGE).then(|| spare().pop()).flatten();
        let mut bytes = spare.unwrap_or_default();
        bytes.reserve_exact(len);
        Self(bytes)
    }

    /// Adds bytes at the end.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0);
        if bytes.capacity() >= LARGE {
            bytes.clear();
            let mut spare = spare();
            if spare.len() < SPARE_MAX {
                spare.push(bytes);
            }
        }
    }
}

fn spare() -> MutexGuard<'static, Vec<Vec<u8>>> {
    static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Size from which a buffer is used again.
const LARGE: usize = 1 << 20;
/// Maximum number of spare buffers: those of all parts that are copied at a time.
const SPARE_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_is_used_again_and_begins_empty() {
        let mut body = Body::with_room(LARGE);
        body.extend(&[7; 100]);
        let place = body.as_ptr();
        drop(body);
        let mut again = Body::with_room(LARGE);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        again.extend(&[8; 10]);
        assert_eq!(*again, [8; 10]);
    }

    #[test]
    fn small_memory_is_not_kept() {
        drop(Body::with_room(1000));
        assert!(spare().iter().all(|bytes| bytes.capacity() >= LARGE));
    }
}
