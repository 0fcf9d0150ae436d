//! Time that a network thread has waited for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvError, TryRecvError};
use std::time::Duration;

use crate::host::clock::Clock;

/// Time that a network thread has waited for the thread that reads or writes.
#[derive(Clone, Debug)]
pub struct Waits {
    nanos: Arc<AtomicU64>,
    clock: Clock,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            nanos: Arc::default(),
            clock: Clock::start(),
        }
    }
}

impl Waits {
    /// Returns the total waiting time.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Relaxed))
    }

    /// Receives from `channel`. A wait is counted.
    pub fn receive<T>(&self, channel: &Receiver<T>) -> Result<T, RecvError> {
        match channel.try_recv() {
            Ok(there) => Ok(there),
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Err(TryRecvError::Empty) => {
                let begin = self.clock.now();
                let received = channel.recv();
                let waited = self.clock.now().since(begin).as_nanos();
                let waited = u64::try_from(waited).unwrap_or(u64::MAX);
                self.nanos.fetch_add(waited, Relaxed);
                received
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn only_waiting_time_is_counted() {
        let waits = Waits::default();
        let (sender, receiver) = channel();
        sender.send(1).unwrap();
        assert_eq!(waits.receive(&receiver), Ok(1));
        assert_eq!(waits.total(), Duration::ZERO);
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            sender.send(2).unwrap();
        });
        assert_eq!(waits.receive(&receiver), Ok(2));
        late.join().unwrap();
        assert!(waits.total() > Duration::ZERO);
        assert_eq!(waits.receive(&receiver), Err(RecvError));
    }
}
