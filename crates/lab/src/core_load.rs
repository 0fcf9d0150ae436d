//! Load on one core's processor and memory.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use lighthaul_io::host::affinity::pin_to_core;

use crate::error::{Error, Result};

/// Tasks that copy memory, until this value is dropped.
#[derive(Debug)]
pub struct CoreLoad {
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl CoreLoad {
    /// Starts `tasks` threads on the CPU `core`.
    pub fn start(tasks: u32, core: usize) -> Result<Self> {
        let mut load = Self {
            is_over: Arc::default(),
            tasks: Vec::new(),
        };
        for _ in 0..tasks {
            let is_over = Arc::clone(&load.is_over);
            let task = thread::Builder::new().spawn(move || {
                pin_to_core(core).ok();
                copy_until(&is_over);
            });
            load.tasks
                .push(task.map_err(Error::world("start a task that loads a core"))?);
        }
        Ok(load)
    }
}

impl Drop for CoreLoad {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for task in self.tasks.drain(..) {
            task.join().ok();
        }
    }
}

fn copy_until(is_over: &AtomicBool) {
    let source = vec![0x5a_u8; COPY_BYTES];
    let mut target = vec![0; COPY_BYTES];
    while !is_over.load(Relaxed) {
        target.copy_from_slice(black_box(&source));
        black_box(&mut target);
    }
}

/// Bytes copied at a time, more than a core's own caches hold.
const COPY_BYTES: usize = 8 << 20;
