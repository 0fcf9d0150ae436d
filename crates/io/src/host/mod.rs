//! The host: time, waiting, processors, panics and namespaces.
//!
//! - [`clock`]: clocks; [`wall_clock`]: steps of the wall clock; [`wait`], [`poller`]: waits
//! - [`interrupt`], [`cancellation`]: requests to stop; [`stopping`]: limit on waits after them
//! - [`affinity`], [`competition`]: threads and their processors; [`heap`]: the C library's heap
//! - [`durable`]: atomic replacement of files; [`file_calls`]: calls for open files
//! - [`panics`]: panics of threads as errors; [`parent`]: processes that end with their parent
//! - [`namespace`]: networks and cells of the lab
pub mod affinity;
pub mod cancellation;
pub mod clock;
pub mod competition;
pub mod durable;
pub mod file_calls;
pub mod heap;
pub mod interrupt;
pub mod namespace;
pub mod panics;
pub mod parent;
pub mod poller;
pub mod stopping;
pub mod wait;
pub mod wall_clock;
