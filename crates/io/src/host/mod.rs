//! The host: time, waiting, processors and namespaces.
//!
//! - [`clock`]: clocks; [`wait`], [`poller`]: waiting for descriptors; [`interrupt`]: requests to stop
//! - [`affinity`], [`competition`], [`pressure`]: threads and their processors; [`heap`]: the C library's heap
//! - [`namespace`]: networks and cells of the lab
pub mod affinity;
pub mod clock;
pub mod competition;
pub mod heap;
pub mod interrupt;
pub mod namespace;
pub mod poller;
pub mod pressure;
pub mod wait;
