//! Time-range-capacity vectors (section 1 of the VBLS paper): what a circuit carries, and when.
//!
//! - `vector`: steps, and what they carry; `text`: as people write them

mod text;
mod vector;

pub use self::text::{moment, step_of};
pub use self::vector::{Misuse, RATE_MAX, RATE_MIN, STEPS_MAX, Step, Trc};
