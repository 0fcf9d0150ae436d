//! Cleanup of the bench's files and its running lab, also after signals.

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use lighthaul_io::host::clock::Clock;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::folders::BenchFolders;

/// Owner of the bench's files and its running lab, which removes both.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) folders: BenchFolders,
    lab: Arc<Mutex<Lab>>,
}

/// Running lab, if any.
#[derive(Debug, Default)]
struct Lab {
    child: Option<Child>,
    /// True once no further lab may start.
    is_over: bool,
}

impl Guard {
    /// Creates the guard, which also cleans up after signals. Call it before any thread starts.
    pub(crate) fn new() -> io::Result<Self> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block()?;
        let guard = Self {
            folders: BenchFolders::new(),
            lab: Arc::default(),
        };
        let (folders, lab) = (guard.folders.clone(), Arc::clone(&guard.lab));
        thread::spawn(move || {
            if signals.wait().is_ok() {
                // Without its lab, the main thread prints its results, cleans up and exits.
                end(&lab);
                thread::sleep(PATIENCE);
                folders.clear();
                std::process::exit(130);
            }
        });
        Ok(guard)
    }

    /// Takes over a running lab.
    pub(crate) fn keep(&self, child: Child) {
        let mut lab = lock(&self.lab);
        let is_over = lab.is_over;
        lab.child = Some(child);
        drop(lab);
        if is_over {
            end(&self.lab);
        }
    }

    /// Waits for the end of the lab. Fails if the lab fails, or after an interrupt.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let child = lock(&self.lab).child.take();
        let status = child.map(|mut child| child.wait()).transpose()?;
        if lock(&self.lab).is_over {
            return Err(io::Error::other("interrupted"));
        }
        match status {
            Some(status) if !status.success() => {
                Err(io::Error::other(format!("the lab failed: {status}")))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        end(&self.lab);
        self.folders.clear();
    }
}

/// Ends a running lab, with all its processes.
fn end(lab: &Mutex<Lab>) {
    let child = {
        let mut lab = lock(lab);
        lab.is_over = true;
        lab.child.take()
    };
    let Some(mut child) = child else {
        return;
    };
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).ok();
    drop(child.stdin.take());
    let clock = Clock::start();
    while clock.now().as_secs_f64() < 2.0 && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().ok();
    child.wait().ok();
    // The lab's cells end shortly after, and may write until then.
    thread::sleep(Duration::from_millis(300));
}

fn lock(lab: &Mutex<Lab>) -> MutexGuard<'_, Lab> {
    lab.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time that the main thread has to exit.
const PATIENCE: Duration = Duration::from_secs(15);
