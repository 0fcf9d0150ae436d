//! Block device that records its writes, with the faults of a failing device.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::Errno;

use crate::image::Image;
use crate::recording::Recording;

/// Recorded block device, shared by the server of its file and the test that cuts its power.
#[derive(Clone, Debug)]
pub struct Device {
    state: Arc<Mutex<DeviceState>>,
}

#[derive(Debug)]
struct DeviceState {
    recording: Recording,
    fault: Fault,
    refused: u64,
}

/// Way in which a device fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// Every write fails with EIO after the given number of recorded events.
    Writes(usize),
    /// Every write fails with ENOSPC after the given number of recorded events, as on a thin-provisioned device.
    Full(usize),
    /// Every flush fails with EIO after the given number of recorded events. Writes succeed.
    Flushes(usize),
    /// Every write that contains the given bytes stores them with one bit flipped. Nothing fails.
    Alters(&'static [u8]),
}

impl Device {
    /// Creates a device with the contents `image`.
    pub fn new(image: Image) -> Self {
        let state = DeviceState {
            recording: Recording::new(image),
            fault: Fault::None,
            refused: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Replaces the content, and clears the recording and the fault. The device must not be
    /// mounted.
    pub fn insert(&self, image: Image) {
        let mut state = self.lock();
        state.recording = Recording::new(image);
        (state.fault, state.refused) = (Fault::None, 0);
    }

    /// Sets the fault of the device.
    pub fn fail(&self, fault: Fault) {
        self.lock().fault = fault;
    }

    /// Returns the number of writes and flushes that failed.
    pub fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// Returns a copy of the recording so far.
    pub fn recording(&self) -> Recording {
        self.lock().recording.clone()
    }

    /// Returns the number of events recorded so far.
    pub fn place(&self) -> usize {
        self.lock().recording.place()
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> u64 {
        self.lock().recording.now().len()
    }

    /// Reports whether the size is zero.
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
            Fault::None
            | Fault::Writes(_)
            | Fault::Full(_)
            | Fault::Flushes(_)
            | Fault::Alters(_) => None,
        };
        if let Some(errno) = refusal {
            state.refused += 1;
            return Err(errno);
        }
        let mut bytes = Cow::from(bytes);
        if let Fault::Alters(mark) = state.fault
            && let Some(at) = bytes.windows(mark.len()).position(|found| found == mark)
        {
            bytes.to_mut()[at] ^= 1;
        }
        state.recording.write(offset, &bytes);
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

    fn lock(&self) -> MutexGuard<'_, DeviceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
