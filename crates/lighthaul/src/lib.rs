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
mod settings;
mod transfer;

pub use lighthaul_base::{Rate, Size};
pub use lighthaul_booking_client::json::Timestamp;
pub use lighthaul_copy::watch::{CopyEvent, CopyProgress, Summary};
pub use lighthaul_files::filter::Separator;
pub use lighthaul_files::options::Options;
pub use lighthaul_files::request::{FileInfo, FileKind, FileReply, FileRequest};
pub use lighthaul_remote::daemon::{Daemon, Token};
pub use lighthaul_remote::ssh::install::Install;
pub use lighthaul_remote::user::{Unattended, User};
pub use lighthaul_remote::{place::Place, reach::Route, scheduler::Scheduler};
pub use lighthaul_remote_files::client::{ranges::ByteRange, reader::RemoteReader};
pub use lighthaul_remote_files::client::{remote_files::RemoteFiles, writer::RemoteWriter};
pub use lighthaul_remote_files::failure::{Failure, FailureKind};
pub use lighthaul_session::error::{Code, Error};

pub use crate::client::Client;
pub use crate::event::{Booked, Event, Released, ReservationEnd};
pub use crate::fault::Fault;
pub use crate::limit::Limit;
pub use crate::list::List;
pub use crate::plan::Plan;
pub use crate::request::{Booking, CopyRequest, Network};
pub use crate::settings::Settings;
pub use crate::transfer::Transfer;
