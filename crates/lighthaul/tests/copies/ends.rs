//! Waiting for the end of a copy without a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use lighthaul::{Code, List};
use lighthaul_testkit::allowance;

use crate::host::{Host, names};

/// Waker of a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future in this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
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
fn waiting_for_a_limited_time_does_not_stop_the_copy() {
    let host = Host::start("limited", &["a"]);
    let mut request = host.push(&host.file("x", 4 << 20), "x");
    request.rate = "40Mb/s".parse().ok();
    let transfer = host.client("a").copy(request).unwrap();
    assert_eq!(transfer.wait_for(Duration::from_millis(1)), None);
    let summary = transfer.wait_for(allowance(30)).unwrap().unwrap();
    assert_eq!(summary.entries, 1);
    // an ended copy tells its result again, to several futures, too
    assert_eq!(block_on(&transfer), Ok(summary));
}

#[test]
fn list_of_paths_selects_the_entries() {
    let host = Host::start("paths", &["a"]);
    host.file("x", 10);
    host.file("y", 10);
    let mut request = host.push(&host.folder, "listed");
    request.options.listed = true;
    request.list = Some(List::of_paths(["y"]));
    let client = host.client("a");
    client.copy(request).unwrap().wait().unwrap();
    assert_eq!(names(&host.folder.join("a/listed")), ["y"]);
}

#[test]
fn copies_are_awaited_in_sequence() {
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
