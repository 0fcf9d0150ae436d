//! Canvas for pictures: antialiased lines, shapes and text.
//!
//! A [`Canvas`] is a white image, and each call draws over what is there. Lengths are in pixels,
//! with the origin at the upper left. Text uses the embedded font, so an image has the same pixels
//! on each host. Characters that the font lacks are skipped. The canvas knows nothing of values and
//! axes; see `axis` for these.

use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Stroke, Transform};
use ttf_parser::{Face, OutlineBuilder};

/// Canvas with a white background.
#[derive(Debug)]
pub struct Canvas {
    pixmap: Pixmap,
    face: Face<'static>,
}

impl Canvas {
    /// Creates a canvas of `width` by `height` pixels, both above zero.
    pub fn new(width: u32, height: u32) -> Self {
        let mut pixmap = Pixmap::new(width, height).expect("a canvas has a size");
        pixmap.fill(Color::WHITE);
        let face = Face::parse(FONT, 0).expect("the font is a part of the program");
        Self { pixmap, face }
    }

    /// Encodes the canvas as a PNG image.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        self.pixmap.encode_png().map_err(|why| why.to_string())
    }

    /// Draws a solid line through points.
    pub fn line(&mut self, points: &[(f32, f32)], color: [u8; 3], width: f32) {
        self.stroke(
            points,
            color,
            &Stroke {
                width,
                ..Stroke::default()
            },
        );
    }

    /// Draws a line through points with `stroke`.
    pub(crate) fn stroke(&mut self, points: &[(f32, f32)], color: [u8; 3], stroke: &Stroke) {
        if let Some(path) = polyline(points).finish() {
            self.pixmap
                .stroke_path(&path, &paint(color), stroke, Transform::identity(), None);
        }
    }

    /// Draws the outline of a shape.
    pub(crate) fn outline(&mut self, path: Option<Path>, color: [u8; 3]) {
        let stroke = Stroke {
            width: 2.0,
            ..Stroke::default()
        };
        if let Some(path) = path {
            self.pixmap
                .stroke_path(&path, &paint(color), &stroke, Transform::identity(), None);
        }
    }

    /// Fills a shape.
    pub(crate) fn fill(&mut self, path: Option<Path>, color: [u8; 3]) {
        if let Some(path) = path {
            let (rule, transform) = (FillRule::Winding, Transform::identity());
            self.pixmap
                .fill_path(&path, &paint(color), rule, transform, None);
        }
    }

    /// Fills a circle.
    pub fn dot(&mut self, (x, y): (f32, f32), radius: f32, color: [u8; 3]) {
        self.fill(PathBuilder::from_circle(x, y, radius), color);
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
            path: PathBuilder::new(),
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
        let transform = Transform::from_rotate(turn).post_translate(at.0, at.1);
        if let Some(path) = outline.path.finish() {
            self.pixmap
                .fill_path(&path, &paint(INK), FillRule::Winding, transform, None);
        }
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
    path: PathBuilder,
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
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

/// Returns an open path through points.
pub(crate) fn polyline(points: &[(f32, f32)]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (nth, (x, y)) in points.iter().enumerate() {
        if nth == 0 {
            path.move_to(*x, *y);
        } else {
            path.line_to(*x, *y);
        }
    }
    path
}

fn paint(color: [u8; 3]) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(color[0], color[1], color[2], 255);
    paint.anti_alias = true;
    paint
}

/// Color of text and axes, nearly black.
pub const INK: [u8; 3] = [40, 40, 40];

/// `DejaVu` Sans, reduced to the characters of the figures. Its license is in the same directory.
const FONT: &[u8] = include_bytes!("font/chart.ttf");
