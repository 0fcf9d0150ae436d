//! Floor 5: reservations of capacity on links.
//!
//! - [`books`]: reservations, policies and the calendar behind them; [`store`]: databases that keep
//!   them
//! - [`policies`]: file of booking policies; [`topology`]: reads topology files
//! - [`error`]: errors of the scheduler

pub mod books;
pub mod error;
pub mod policies;
pub mod store;
pub mod topology;

pub use books::Books;
pub use error::{Error, Result};
