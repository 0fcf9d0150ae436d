//! Figures of calendars: how long files take that are booked, beside what packets would do (section 3.3 of the VBLS paper).
//!
//! - [`arrivals`]: which files there are; [`plan`]: how often, and who carries them
//! - [`discipline`]: when they are over; [`delay`]: what that comes to, with intervals
//! - [`example`]: Figures 1 and 2 of the paper; [`plot`]: the pictures; [`figures`]: all of them
pub mod arrivals;
pub mod delay;
pub mod discipline;
pub mod example;
pub mod figures;
pub mod plan;
pub mod plot;
