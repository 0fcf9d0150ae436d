//! Measuring pictures in tests.

use std::io::{BufRead, Cursor, Seek};

/// Size of a picture, and the share of it that is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Number of pixels whose color is not that of the upper left one.
    pub drawn: usize,
}

/// Measures a PNG image. Panics if it is damaged or incomplete.
pub fn drawing(png: impl BufRead + Seek) -> Drawing {
    let reader = png::Decoder::new(png).read_info();
    let mut reader = reader.expect("a PNG image");
    let size = reader
        .output_buffer_size()
        .expect("a picture fits into memory");
    let mut pixels = vec![0; size];
    let frame = reader.next_frame(&mut pixels);
    let frame = frame.expect("a complete picture");
    let mut pixels = pixels.chunks_exact(frame.color_type.samples());
    let paper = pixels.next();
    let drawn = pixels.filter(|pixel| Some(*pixel) != paper).count();
    Drawing {
        width: frame.width,
        height: frame.height,
        drawn,
    }
}

/// Asserts that this is a complete picture, with a plausible share of drawn pixels.
pub fn assert_drawn(png: &[u8]) {
    let Drawing {
        width,
        height,
        drawn,
    } = drawing(Cursor::new(png));
    assert!(width >= 300 && height >= 200, "{width} x {height}");
    let share = drawn * 1000 / (width * height) as usize;
    assert!(
        (5..900).contains(&share),
        "{share} of 1000 pixels are drawn on"
    );
}
