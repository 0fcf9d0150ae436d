//! Log of a test.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

thread_local! {
    /// Log of this thread, while a test reads it.
    static LOG: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Returns the lines with `words` that this thread logs during `action`.
///
/// All threads share one subscriber, which stays. Subscribers of single threads disturb each other: when one ends,
/// messages of another may be off.
pub fn logged(words: &str, action: impl FnOnce()) -> Vec<String> {
    static START: Once = Once::new();
    START.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_ansi(false);
        subscriber.with_writer(|| ThreadLog).init();
    });
    LOG.set(Some(Vec::new()));
    action();
    let log = LOG.take().unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines = log.lines().filter(|line| line.contains(words));
    lines.map(str::to_owned).collect()
}

/// Writer to the log of this thread.
struct ThreadLog;

impl io::Write for ThreadLog {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| {
            if let Some(log) = log {
                log.extend(octets);
            }
        });
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
