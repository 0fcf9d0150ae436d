//! All figures of bookings.

use std::path::Path;

use lighthaul_lab::error::Result;
use lighthaul_lab::figure::{Figure, Source};

use crate::{calendars, domains};

/// Redraws every plan in the directories `booking` and `domains` of `dir`.
pub fn figures(dir: &Path, source: Source) -> Result<Vec<Figure>> {
    let mut figures = calendars::figures::figures(&dir.join("booking"), source)?;
    figures.extend(domains::figures::figures(&dir.join("domains"), source)?);
    Ok(figures)
}
