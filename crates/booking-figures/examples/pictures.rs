//! Draws the pictures of a directory of figures from its accepted tables, without simulations.

use std::path::PathBuf;

use lighthaul_booking_figures::figures::figures;
use lighthaul_lab::error::Result;
use lighthaul_lab::figure::{Figure, Source};
use lighthaul_lab::figures::redrawn;

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1);
    let dir = PathBuf::from(dir.unwrap_or_else(|| "figures".into()));
    let mut all = redrawn(&dir)?;
    all.extend(figures(&dir, Source::Accepted)?);
    all.iter().try_for_each(Figure::write_picture)
}
