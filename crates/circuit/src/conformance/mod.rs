//! Conformance suite that every driver passes.
//!
//! [`run`] takes a [`Subject`]: a factory of drivers, a view of the device without the driver, and faults. A check that
//! the subject cannot do is reported as not applicable, with the reason.
//!
//! - [`subject`]: driver under test; [`report`]: runs of all checks; [`outcome`]: the result of one; [`program`]: a
//!   driver's program as subject
//! - `kit`: driver, expected state and comparisons; `checks`: behavior without faults; `faulty`: behavior with faults;
//!   `random`: random sequences beside a model

pub mod outcome;
pub mod program;
pub mod report;
pub mod subject;

mod checks;
mod faulty;
mod kit;
mod random;

pub use outcome::Outcome;
pub use program::ProgramSubject;
pub use report::{Report, run};
pub use subject::{Fault, State, Subject};
