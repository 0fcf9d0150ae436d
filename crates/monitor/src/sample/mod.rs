//! Counters of the kernel, from `/proc`.
//!
//! - [`host`]: all counters at one time, and the reader of their files
//! - [`cpu`], [`pressure`], [`schedule`]: processors, stalls and waiting times
//! - [`memory`], [`disk`], [`interface`], [`udp`]: resources, each with its parser and its rates
//! - [`counter`]: differences of counters that wrap or restart

pub mod counter;
pub mod cpu;
pub mod disk;
pub mod host;
pub mod interface;
pub mod memory;
pub mod pressure;
pub mod schedule;
pub mod udp;
