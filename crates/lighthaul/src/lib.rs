//! Floor 10: copies between hosts at the rate of the path, for programs.
//!
//! ```no_run
//! use lighthaul::{Client, CopyRequest, Place};
//!
//! let (source, target) = (Place::parse("results")?, Place::parse("lh://far.example.org/archive/")?);
//! let transfer = Client::default().copy(CopyRequest::new([source], target))?;
//! let summary = transfer.wait()?; // or transfer.await
//! println!("{} bytes in {} entries", summary.bytes, summary.entries);
//! # Ok::<(), lighthaul::Error>(())
//! ```
//!
//! - [`Client`]: starts copies; [`Settings`]: its settings; [`CopyRequest`]: one copy; [`Plan`]: result of a dry run
//! - [`Transfer`]: a running copy; [`Event`]: event for its observer; [`FileRequest`], [`RemoteFiles`]: other work
//! - [`Stream`]: messages for a program on another host; [`Reservation`]: capacity that a scheduler has reserved
//! - [`Summary`]: a copy that has ended; [`Error`]: a sentence with a [`Code`], and perhaps a [`Fault`] of this crate
//!
//! ```text
//! CopyRequest, Settings -> Job -> circuit or path, if booked -> attempts: push, pull or third party -> Summary
//! ```
//!
//! Notes and questions go to a [`User`]. Defaults are the user's files, `LIGHTHAUL_TOKEN` and
//! `LIGHTHAUL_SCHEDULER_TOKEN`. `copy` and `files` have the logic, `guide` has a page, other modules have types.

mod client;
mod copy;
mod event;
mod fault;
mod files;
mod guide;
mod limit;
mod list;
mod plan;
mod request;
mod scheduling;
mod settings;
mod streams;
mod task;
mod transfer;

pub use lighthaul_base::{Rate, Size};
pub use lighthaul_copy::watch::{CopyEvent, CopyProgress, Summary};
pub use lighthaul_files::request::{FileInfo, FileKind, FileReply, FileRequest};
pub use lighthaul_files::{filter::Separator, options::Options};
pub use lighthaul_remote::daemon::{Daemon, Token};
pub use lighthaul_remote::{place::Place, reach::Route, scheduler::Scheduler};
pub use lighthaul_remote::{ssh::install::Install, user::Unattended, user::User};
pub use lighthaul_remote_files::client::{ranges::ByteRange, reader::RemoteReader};
pub use lighthaul_remote_files::client::{remote_files::RemoteFiles, writer::RemoteWriter};
pub use lighthaul_remote_files::failure::{Failure, FailureKind};
pub use lighthaul_session::error::{Code, Error};

pub use crate::event::{Booked, Event, Released, ReservationEnd};
pub use crate::request::{Booking, CopyRequest, Network};
pub use crate::scheduling::*;
pub use crate::settings::Settings;
pub use crate::streams::*;
pub use crate::{client::Client, fault::Fault, transfer::Transfer};
pub use crate::{limit::Limit, list::List, plan::Plan};
