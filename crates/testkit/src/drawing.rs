//! Measuring pictures in tests.

use std::fs;
use std::io::{BufRead, Cursor, Seek};
use std::path::Path;

/// Size of a picture, and the number of pixels that are drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Number of pixels whose color differs from the upper left pixel.
    pub drawn: usize,
}

/// Decoded picture: its size, the bytes per pixel, and the bytes of all pixels.
struct Pixels {
    width: u32,
    height: u32,
    samples: usize,
    bytes: Vec<u8>,
}

fn pixels(png: impl BufRead + Seek) -> Pixels {
    let reader = png::Decoder::new(png).read_info();
    let mut reader = reader.expect("a PNG image");
    let size = reader
        .output_buffer_size()
        .expect("a picture fits into memory");
    let mut bytes = vec![0; size];
    let frame = reader.next_frame(&mut bytes);
    let frame = frame.expect("a complete picture");
    Pixels {
        width: frame.width,
        height: frame.height,
        samples: frame.color_type.samples(),
        bytes,
    }
}

/// Measures a PNG image. Panics if it is damaged or incomplete.
pub fn drawing(png: impl BufRead + Seek) -> Drawing {
    let Pixels {
        width,
        height,
        samples,
        bytes,
    } = pixels(png);
    let mut pixels = bytes.chunks_exact(samples);
    let paper = pixels.next();
    let drawn = pixels.filter(|pixel| Some(*pixel) != paper).count();
    Drawing {
        width,
        height,
        drawn,
    }
}

/// Compares the picture in a file with one that was drawn again. Returns the difference as a sentence.
///
/// Colors may differ by a rounding error, since not all hosts compute logarithms alike.
pub fn picture_fault(file: &Path, drawn: impl BufRead + Seek) -> Option<String> {
    let Ok(kept) = fs::read(file) else {
        return Some(format!("{} is missing", file.display()));
    };
    let (kept, drawn) = (pixels(Cursor::new(kept)), pixels(drawn));
    let sizes = [&kept, &drawn].map(|picture| (picture.width, picture.height));
    if sizes[0] != sizes[1] {
        let [kept, drawn] = sizes;
        return Some(format!("{}: {kept:?}, not {drawn:?}", file.display()));
    }
    let pairs = kept.bytes.iter().zip(&drawn.bytes);
    let other = pairs.filter(|(kept, drawn)| kept.abs_diff(**drawn) > ROUNDED);
    let other = other.count();
    (other > 0).then(|| format!("{}: {other} bytes of pixels differ", file.display()))
}

/// Asserts that `png` is a complete picture, with a plausible share of drawn pixels.
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

/// Largest difference of a color that is a rounding error.
const ROUNDED: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn png(dark: bool) -> Vec<u8> {
        let mut image = Vec::new();
        let mut encoder = png::Encoder::new(&mut image, 2, 1);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().expect("a header");
        let color = if dark { 0 } else { 250 };
        let written = writer.write_image_data(&[255, 255, 255, color, 255, 255]);
        written.expect("two pixels");
        drop(writer);
        image
    }

    #[test]
    fn stale_and_missing_pictures_are_found() {
        let file = std::env::temp_dir().join(format!("drawing-{}.png", std::process::id()));
        assert!(picture_fault(&file, Cursor::new(png(true))).is_some());
        fs::write(&file, png(true)).expect("a file is written");
        assert_eq!(picture_fault(&file, Cursor::new(png(true))), None);
        assert!(picture_fault(&file, Cursor::new(png(false))).is_some());
        fs::remove_file(&file).expect("a file is removed");
    }
}
