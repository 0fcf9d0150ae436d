//! Figures of calendars: delays of booked files, compared with packet switching (section 3.3 of the
//! VBLS paper).
//!
//! - [`arrivals`]: random files; [`plan`]: plans of figures, with their disciplines
//! - [`network`]: links and calendars; [`discipline`]: completion times; [`delay`]: mean delays with confidence
//!   intervals
//! - [`example`]: Figures 1 and 2 of the paper; [`plot`]: pictures; [`figures`]: all figures
pub mod arrivals;
pub mod delay;
pub mod discipline;
pub mod example;
pub mod figures;
pub mod network;
pub mod plan;
pub mod plot;
