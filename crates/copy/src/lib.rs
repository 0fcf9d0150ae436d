//! Floor 5: types that both sides of a copy of files share.
//!
//! - [`message`]: messages of a copy; [`report`]: reports of the sender in them; [`contents`]: contents of small files
//!   in the list; [`delta_message`]: messages of a delta; [`relay`]: messages about a copy between two other hosts
//! - [`budget`]: limits of one copy; [`thread_group`]: its threads
//! - [`pace`]: rate and remaining time, smoothed; [`monitor`]: counters and events; [`watch`]: events for an observer;
//!   [`bottleneck`]: its limiting factor
//! - [`failures`]: failed entries with reasons; [`error`]: faults
//! - [`object_target`]: directories in object stores; [`held_parts`]: parts there from earlier copies;
//!   [`object_options`]: options that these cannot have; [`span_set`]: owed ranges of a file
//! - [`source_names`]: names at the source
//! - [`work`]: steps of one side, counted; [`stall`]: end of a copy in which neither side works

pub mod bottleneck;
#[cfg(feature = "broken-parts")]
pub mod broken_part;
pub mod budget;
pub mod contents;
pub mod delta_message;
pub mod error;
pub mod failures;
pub mod held_parts;
pub mod message;
pub mod monitor;
pub mod object_options;
pub mod object_target;
pub mod pace;
pub mod relay;
pub mod report;
pub mod source_names;
pub mod span_set;
pub mod stall;
pub mod thread_group;
pub mod watch;
pub mod work;
