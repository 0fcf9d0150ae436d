//! Canvas for pictures: antialiased lines, shapes and text.
//!
//! A [`Canvas`] is a white image, and each call draws over what is there. Lengths are in pixels,
//! with the origin at the upper left. Text uses the embedded font, so an image has the same pixels
//! on each host. Characters that the font lacks are skipped. The canvas knows nothing of values and
//! axes; see `axis` for these.

use std::ops::Range;

use ttf_parser::{Face, OutlineBuilder};
use zeno::{Angle, Command, Fill, Mask, PathBuilder as _, Style, Transform, Vector};

/// Outlines in pixels.
pub(crate) type Path = Vec<Command>;
/// Lengths of dashes and gaps, in pixels.
pub(crate) type Dashes = &'static [f32];

/// Appearance of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke {
    /// Width in pixels.
    pub(crate) width: f32,
    /// Dashes and gaps; empty if the line is solid.
    pub(crate) dashes: Dashes,
}

/// Canvas with a white background.
#[derive(Debug)]
pub struct Canvas {
    width: u32,
    height: u32,
    /// Red, green and blue of each pixel, row by row from the top.
    pixels: Vec<u8>,
    face: Face<'static>,
}

impl Canvas {
    /// Creates a canvas of `width` by `height` pixels.
    pub fn new(width: u32, height: u32) -> Self {
        let pixels = vec![u8::MAX; width as usize * height as usize * 3];
        let face = Face::parse(FONT, 0).expect("the font is a part of the program");
        Self {
            width,
            height,
            pixels,
            face,
        }
    }

    /// Encodes the canvas as a PNG image.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        let mut image = Vec::new();
        let mut encoder = png::Encoder::new(&mut image, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        let written = encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&self.pixels));
        written.map_err(|why| why.to_string())?;
        Ok(image)
    }

    /// Draws a solid line through points.
    pub fn line(&mut self, points: &[(f32, f32)], color: [u8; 3], width: f32) {
        self.stroke(points, color, Stroke { width, dashes: &[] });
    }

    /// Draws a line through points with `stroke`.
    pub(crate) fn stroke(&mut self, points: &[(f32, f32)], color: [u8; 3], stroke: Stroke) {
        let mut style = zeno::Stroke::new(stroke.width);
        style.dash(stroke.dashes, 0.0);
        self.draw(&polyline(points), Style::Stroke(style), None, color);
    }

    /// Draws the outline of a shape.
    pub(crate) fn outline(&mut self, path: &Path, color: [u8; 3]) {
        self.draw(path, Style::Stroke(zeno::Stroke::new(2.0)), None, color);
    }

    /// Fills a shape.
    pub(crate) fn fill(&mut self, path: &Path, color: [u8; 3]) {
        self.draw(path, Style::Fill(Fill::NonZero), None, color);
    }

    /// Fills a circle.
    pub fn dot(&mut self, (x, y): (f32, f32), radius: f32, color: [u8; 3]) {
        let mut path = Path::new();
        path.add_circle((x, y), radius);
        self.fill(&path, color);
    }

    /// Blends `color` into the pixels that a path covers. Parts outside the canvas are left out.
    fn draw(
        &mut self,
        path: &Path,
        style: Style<'_>,
        transform: Option<Transform>,
        color: [u8; 3],
    ) {
        let bounds = zeno::bounds(path, style, transform);
        let columns = pixels(bounds.min.x, bounds.max.x, self.width);
        let rows = pixels(bounds.min.y, bounds.max.y, self.height);
        if bounds.is_empty() || columns.is_empty() || rows.is_empty() {
            return;
        }
        let (coverage, _) = Mask::new(path)
            .style(style)
            .transform(transform)
            .size(columns.len() as u32, rows.len() as u32)
            .offset(Vector::new(-(columns.start as f32), -(rows.start as f32)))
            .render();
        let covered = coverage.chunks_exact(columns.len());
        for (row, y) in covered.zip(rows) {
            let first = y as usize * self.width as usize + columns.start as usize;
            let pixels = self.pixels[first * 3..].chunks_exact_mut(3);
            for (pixel, alpha) in pixels.zip(row) {
                for (below, above) in pixel.iter_mut().zip(color) {
                    *below = blend(*below, above, *alpha);
                }
            }
        }
    }

    /// Returns the width of a text, in pixels.
    pub fn width(&self, text: &str, size: f32) -> f32 {
        let advance = |c| {
            let glyph = self.face.glyph_index(c)?;
            self.face.glyph_hor_advance(glyph)
        };
        let units: u32 = text.chars().filter_map(advance).map(u32::from).sum();
        units as f32 * size / f32::from(self.face.units_per_em())
    }

    /// Draws a text with its baseline at a point.
    pub fn text(&mut self, text: &str, at: (f32, f32), size: f32, anchor: Anchor) {
        let width = self.width(text, size);
        let shift = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle | Anchor::Upright => -width / 2.0,
            Anchor::End => -width,
        };
        let mut outline = Outline {
            path: Path::new(),
            pen: shift,
            scale: size / f32::from(self.face.units_per_em()),
        };
        for glyph in text.chars().filter_map(|c| self.face.glyph_index(c)) {
            self.face.outline_glyph(glyph, &mut outline);
            let advance = self.face.glyph_hor_advance(glyph).unwrap_or(0);
            outline.pen += f32::from(advance) * outline.scale;
        }
        let turn = if matches!(anchor, Anchor::Upright) {
            -90.0
        } else {
            0.0
        };
        let transform = Transform::rotation(Angle::from_degrees(turn)).then_translate(at.0, at.1);
        self.draw(
            &outline.path,
            Style::Fill(Fill::NonZero),
            Some(transform),
            INK,
        );
    }
}

/// Position of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text starts at the point.
    Start,
    /// The text is centered at the point.
    Middle,
    /// The text ends at the point.
    End,
    /// The text is rotated to the left and centered at the point.
    Upright,
}

/// Converter of a glyph's outline to a path with the baseline at zero.
struct Outline {
    path: Path,
    pen: f32,
    scale: f32,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.pen + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        self.path.move_to(to);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        self.path.line_to(to);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (control, to) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(control, to);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (first, second, to) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.curve_to(first, second, to);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

/// Returns an open path through points.
pub(crate) fn polyline(points: &[(f32, f32)]) -> Path {
    let mut path = Path::new();
    for (nth, point) in points.iter().enumerate() {
        if nth == 0 {
            path.move_to(*point);
        } else {
            path.line_to(*point);
        }
    }
    path
}

/// Returns a closed path through points.
pub(crate) fn polygon(points: &[(f32, f32)]) -> Path {
    let mut path = polyline(points);
    path.close();
    path
}

/// Returns a closed path around a rectangle.
pub(crate) fn rectangle(corner: (f32, f32), width: f32, height: f32) -> Path {
    let mut path = Path::new();
    path.add_rect(corner, width, height);
    path
}

/// Returns the pixels that lie between two positions, below `end`.
#[expect(clippy::cast_sign_loss, reason = "the number is not negative")]
fn pixels(from: f32, till: f32, end: u32) -> Range<u32> {
    let clip = |at: f32| (at.max(0.0) as u32).min(end);
    clip(from.floor())..clip(till.ceil())
}

/// Returns a part of a color that covers `alpha` of 255 of a pixel, over another.
const fn blend(below: u8, above: u8, alpha: u8) -> u8 {
    let (below, above, alpha) = (below as u32, above as u32, alpha as u32);
    ((above * alpha + below * (255 - alpha) + 127) / 255) as u8
}

/// Color of text and axes, nearly black.
pub const INK: [u8; 3] = [40, 40, 40];

/// `DejaVu` Sans, reduced to the characters of the figures. Its license is in the same directory.
const FONT: &[u8] = include_bytes!("font/chart.ttf");
