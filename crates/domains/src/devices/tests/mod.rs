//! Tests of devices that play whole paths.
//!
//! - `granted`: random paths of a calendar; `restarts`: circuits from before a start; `route_moves`: rates that move to
//!   other routes

mod granted;
mod restarts;
mod route_moves;
