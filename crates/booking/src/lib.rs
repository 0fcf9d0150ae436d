//! Floor 6: the service that books capacity, and what talks to it.
//!
//! - [`word`]: what crosses the REST interface
//! - [`books`]: who has what promised, and the calendar behind it; [`store`]: where they are kept
//! - [`circuits`]: what is promised, kept at devices; [`topology`]: which links there are
//! - [`identity`]: who asks, and what they may do; [`policies`]: what each identity may book
//! - [`api`]: what is answered; [`serve`]: the service as a whole; [`certificate`]: what it shows of itself
//! - [`callers`]: connections and their limits; `patient`: streams whose peer takes nothing
//! - [`client`]: asking a scheduler; [`https`]: how it is known
//! - [`error`]: why something was not done

pub mod api;
pub mod books;
pub mod callers;
pub mod certificate;
pub mod circuits;
pub mod client;
pub mod error;
pub mod https;
pub mod identity;
mod patient;
pub mod policies;
pub mod serve;
pub mod store;
pub mod topology;
pub mod word;

pub use books::Books;
pub use error::{Error, Result};
