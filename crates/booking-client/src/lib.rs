//! Floor 4: client of the scheduler.
//!
//! - [`reservation`]: states of a reservation, as in NSI, and its journal; [`role`]: rights of identities
//! - [`client`]: client of the REST interface; [`jobs`]: its queue of copies; `patience`:
//!   repetition of requests; `client_error`: their faults; [`json`]: its JSON types
//! - [`events`]: events as they happen, over connections that may be lost
//! - [`leased_link`]: capacity that a scheduler has for a time, as a link
//! - [`https`]: HTTP client with its own check of certificates; [`clear_text`]: rule for secrets
//! - [`zone`]: times as people read them, in their time zone

pub mod clear_text;
pub mod client;
pub mod events;
pub mod https;
pub mod jobs;
pub mod json;
pub mod leased_link;
pub mod reservation;
pub mod role;
pub mod zone;

mod client_error;
mod patience;
