//! Draws the figures of a folder without emulation: `cargo run --release --example figures figures`.
#![expect(clippy::print_stdout, reason = "a face")]

use std::path::Path;

use lighthaul_lab::figures::figures;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("which folder?")?;
    for figure in figures(Path::new(&dir), None)? {
        println!("{}", figure.picture.display());
        for difference in figure.differences {
            println!("  not as accepted: {difference}");
        }
    }
    Ok(())
}
