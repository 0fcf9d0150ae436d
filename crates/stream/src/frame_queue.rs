//! Queue of frames between a thread that serves a pipe and the thread that serves the network.
//!
//! The queue is bounded by bytes, so that its memory does not depend on the size of a frame. A
//! frame larger than the bound waits alone. Either side can end the queue: [`FrameQueue::close`]
//! keeps the queued frames for the reader, [`FrameQueue::abandon`] drops it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Handle on a queue; all clones are the same queue.
#[derive(Debug)]
pub(crate) struct FrameQueue<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    queued: Mutex<QueuedFrames<T>>,
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Debug)]
struct QueuedFrames<T> {
    frames: VecDeque<(T, usize)>,
    bytes: usize,
    is_closed: bool,
    is_abandoned: bool,
}

/// Reason that a frame was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotPushed<T> {
    /// The queue is full; the frame is returned.
    Full(T),
    /// The queue takes no more frames.
    Closed,
}

/// Result of taking a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<T> {
    Frame(T),
    /// No frame within the time limit.
    Empty,
    /// No more frames.
    End,
}

impl<T> FrameQueue<T> {
    /// Returns an empty queue that takes `bytes_max` bytes of memory.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let queued = QueuedFrames {
            frames: VecDeque::new(),
            bytes: 0,
            is_closed: false,
            is_abandoned: false,
        };
        Self {
            shared: Arc::new(Shared {
                queued: Mutex::new(queued),
                changed: Condvar::new(),
                bytes_max,
            }),
        }
    }

    /// Queues a frame of `len` bytes, and waits for room up to `patience`.
    pub(crate) fn push(
        &self,
        frame: T,
        len: usize,
        patience: Duration,
    ) -> Result<(), NotPushed<T>> {
        let len = len + AROUND;
        let is_full = |queued: &mut QueuedFrames<T>| {
            !queued.is_closed && queued.bytes > 0 && queued.bytes + len > self.shared.bytes_max
        };
        let mut queued = self.wait(patience, is_full);
        if queued.is_closed {
            return Err(NotPushed::Closed);
        }
        if is_full(&mut queued) {
            return Err(NotPushed::Full(frame));
        }
        queued.bytes += len;
        queued.frames.push_back((frame, len));
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Takes the first frame, and waits for one up to `patience`.
    pub(crate) fn pop(&self, patience: Duration) -> Popped<T> {
        let mut queued = self.wait(patience, |queued| {
            !queued.is_closed && queued.frames.is_empty()
        });
        match queued.frames.pop_front() {
            Some((frame, len)) => {
                queued.bytes -= len;
                self.shared.changed.notify_all();
                Popped::Frame(frame)
            }
            None if queued.is_closed => Popped::End,
            None => Popped::Empty,
        }
    }

    /// Closes the queue to new frames; queued frames can still be taken.
    pub(crate) fn close(&self) {
        self.queued().is_closed = true;
        self.shared.changed.notify_all();
    }

    /// Closes the queue to new frames, and drops queued frames.
    pub(crate) fn abandon(&self) {
        let mut queued = self.queued();
        (queued.is_closed, queued.is_abandoned) = (true, true);
        queued.frames.clear();
        queued.bytes = 0;
        self.shared.changed.notify_all();
    }

    /// Waits up to `patience` for the queue to be abandoned; returns true if it was abandoned.
    pub(crate) fn is_abandoned_within(&self, patience: Duration) -> bool {
        self.wait(patience, |queued| !queued.is_abandoned)
            .is_abandoned
    }

    /// Returns true if no more frames are taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.queued().is_closed
    }

    fn wait(
        &self,
        patience: Duration,
        is_early: impl FnMut(&mut QueuedFrames<T>) -> bool,
    ) -> MutexGuard<'_, QueuedFrames<T>> {
        let queued = self.queued();
        if patience.is_zero() {
            return queued;
        }
        let waited = self
            .shared
            .changed
            .wait_timeout_while(queued, patience, is_early);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn queued(&self) -> MutexGuard<'_, QueuedFrames<T>> {
        let queued = self.shared.queued.lock();
        queued.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for FrameQueue<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Bytes of memory for each queued frame, in addition to its octets.
const AROUND: usize = 64;

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn queue_is_bounded_by_bytes_and_takes_a_single_larger_frame() {
        let queue = FrameQueue::new(10 + 2 * AROUND);
        assert_eq!(queue.push("large", 1000, NOW), Ok(()));
        assert_eq!(queue.push("x", 1, NOW), Err(NotPushed::Full("x")));
        assert_eq!(queue.pop(NOW), Popped::Frame("large"));
        assert_eq!(queue.push("six", 6, NOW), Ok(()));
        assert_eq!(queue.push("four", 4, NOW), Ok(()));
        assert_eq!(queue.push("empty", 0, NOW), Err(NotPushed::Full("empty")));
        assert_eq!(queue.pop(NOW), Popped::Frame("six"));
        assert_eq!(queue.pop(NOW), Popped::Frame("four"));
        assert_eq!(queue.pop(NOW), Popped::Empty);
    }

    #[test]
    fn closed_queue_keeps_and_abandoned_queue_drops_its_frames() {
        let queue = FrameQueue::new(10);
        queue.push(1, 1, NOW).unwrap();
        queue.close();
        assert_eq!(queue.push(2, 1, NOW), Err(NotPushed::Closed));
        assert_eq!(queue.pop(NOW), Popped::Frame(1));
        assert_eq!(queue.pop(NOW), Popped::End);
        let queue = FrameQueue::new(10);
        queue.push(1, 1, NOW).unwrap();
        queue.abandon();
        assert_eq!(queue.pop(LONG), Popped::End);
        assert_eq!(queue.push(2, 1, LONG), Err(NotPushed::Closed));
    }

    #[test]
    fn producer_and_consumer_wake_each_other() {
        let queue = FrameQueue::new(1);
        let pushing = queue.clone();
        let pusher = thread::spawn(move || {
            for number in 0..1000 {
                pushing.push(number, 1, LONG).unwrap();
            }
            pushing.close();
        });
        let mut taken = Vec::new();
        while let Popped::Frame(number) = queue.pop(LONG) {
            taken.push(number);
        }
        pusher.join().unwrap();
        assert!(taken.into_iter().eq(0..1000));
    }
}
