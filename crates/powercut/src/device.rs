//! A recording behind a lock, with the faults that a failing device has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::Errno;

use crate::image::Image;
use crate::recording::Recording;

/// A block device, shared by the server of its file and the test that cuts it.
#[derive(Clone, Debug)]
pub struct Device {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    recording: Recording,
    fault: Fault,
    refused: u64,
}

/// Way in which a device fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Not at all.
    #[default]
    None,
    /// Every write fails with EIO once the recording has so many events.
    Writes(usize),
    /// Every write fails with ENOSPC once the recording has so many events, as on a thin device.
    Full(usize),
    /// Every flush fails with EIO once the recording has so many events; writes do not.
    Flushes(usize),
}

impl Device {
    /// A device with this content.
    pub fn new(image: Image) -> Self {
        let state = State {
            recording: Recording::new(image),
            fault: Fault::None,
            refused: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Replaces the content and forgets the recording; nothing may be mounted.
    pub fn insert(&self, image: Image) {
        let mut state = self.lock();
        state.recording = Recording::new(image);
        (state.fault, state.refused) = (Fault::None, 0);
    }

    /// Makes the device fail.
    pub fn fail(&self, fault: Fault) {
        self.lock().fault = fault;
    }

    /// Number of writes and flushes that failed.
    pub fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// All that was recorded so far.
    pub fn recording(&self) -> Recording {
        self.lock().recording.clone()
    }

    /// The place in the recording that the device has reached.
    pub fn place(&self) -> usize {
        self.lock().recording.place()
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.lock().recording.now().len()
    }

    /// True if it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) {
        self.lock().recording.now().read(offset, buffer);
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut state = self.lock();
        let place = state.recording.place();
        let refusal = match state.fault {
            Fault::Writes(from) if place >= from => Some(Errno::EIO),
            Fault::Full(from) if place >= from => Some(Errno::ENOSPC),
            Fault::None | Fault::Writes(_) | Fault::Full(_) | Fault::Flushes(_) => None,
        };
        if let Some(errno) = refusal {
            state.refused += 1;
            return Err(errno);
        }
        state.recording.write(offset, bytes);
        Ok(())
    }

    pub(crate) fn flush(&self) -> Result<(), Errno> {
        let mut state = self.lock();
        if matches!(state.fault, Fault::Flushes(from) if state.recording.place() >= from) {
            state.refused += 1;
            return Err(Errno::EIO);
        }
        state.recording.flush();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
