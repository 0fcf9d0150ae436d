//! Time-range-capacity (TRC) vectors (section 1 of the VBLS paper): the rate of a circuit over time.
//!
//! - `vector`: steps, and the bytes that they carry; `text`: parsing and printing

mod text;
mod vector;

pub use self::text::{parse_step, parse_time};
pub use self::vector::{RATE_MAX, RATE_MIN, STEPS_MAX, Step, Trc, TrcError};
