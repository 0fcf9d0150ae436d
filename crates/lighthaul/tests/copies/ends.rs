//! Waiting for the end of a copy without a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

use lighthaul::Code;

use crate::host::Host;

/// Waker of a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

#[test]
fn copies_are_awaited_one_after_the_other() {
    let host = Host::start("await", &["a"]);
    let file = host.file("x", 1 << 20);
    let client = host.client("a");
    let entries = block_on(async {
        let first = client.copy(host.push(&file, "x"))?.await?;
        let second = client.copy(host.push(&file, "y"))?.await?;
        Ok::<_, lighthaul::Error>(first.entries + second.entries)
    });
    assert_eq!(entries, Ok(2));
    let absent = host.push(&host.folder.join("absent"), "z");
    let failed = block_on(async { client.copy(absent)?.await });
    assert_eq!(failed.unwrap_err().code(), Code::Open);
}
