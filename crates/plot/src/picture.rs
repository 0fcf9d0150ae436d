//! Picture of simple shapes, as PNG or SVG.
//!
//! A [`Picture`] is a list of [`Shape`]s: areas, lines and text. [`Picture::png`] and
//! [`Picture::svg`] show the same list. Later shapes cover earlier ones. Lengths are in pixels from
//! the upper left. Both forms depend only on the shapes, so a figure can be compared with an
//! accepted one. SVG text is escaped, because it may come from a user.

use std::fmt::Write;

pub use crate::canvas::Anchor;
use crate::canvas::{Canvas, INK, polygon};

/// Shapes on a white background. Later shapes cover earlier ones; the origin is at the upper left.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    width: u32,
    height: u32,
    shapes: Vec<Shape>,
}

/// Element of a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Filled polygon.
    Area {
        /// Corners of the polygon.
        points: Vec<(f32, f32)>,
        /// Red, green and blue.
        color: [u8; 3],
    },
    /// Line through points.
    Line {
        /// Points of the line.
        points: Vec<(f32, f32)>,
        /// Red, green and blue.
        color: [u8; 3],
        /// Width in pixels.
        width: f32,
    },
    /// Text.
    Text {
        /// Content of the text.
        text: String,
        /// Position of the text.
        at: (f32, f32),
        /// Size in pixels.
        size: f32,
        /// Side of the text that is at the position.
        anchor: Anchor,
    },
}

impl Picture {
    /// Creates an empty picture, at least one pixel wide and high.
    pub fn new(width: u32, height: u32) -> Self {
        Self {
            width: width.max(1),
            height: height.max(1),
            shapes: Vec::new(),
        }
    }

    /// Adds a shape above all others.
    pub fn add(&mut self, shape: Shape) {
        self.shapes.push(shape);
    }

    /// Encodes the picture as a PNG image.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        let mut canvas = Canvas::new(self.width, self.height);
        for shape in &self.shapes {
            match shape {
                Shape::Area { points, color } => {
                    canvas.fill(&polygon(points), *color);
                }
                Shape::Line {
                    points,
                    color,
                    width,
                } => canvas.line(points, *color, *width),
                Shape::Text {
                    text,
                    at,
                    size,
                    anchor,
                } => canvas.text(text, *at, *size, *anchor),
            }
        }
        canvas.png()
    }

    /// Encodes the picture as an SVG image.
    pub fn svg(&self) -> String {
        let (width, height) = (self.width, self.height);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"DejaVu Sans, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        for shape in &self.shapes {
            // Writing to a string cannot fail.
            write_shape(&mut svg, shape).ok();
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn write_shape(svg: &mut String, shape: &Shape) -> std::fmt::Result {
    match shape {
        Shape::Area { points, color } => {
            writeln!(
                svg,
                "<polygon points=\"{}\" fill=\"{}\"/>",
                list(points),
                hex(*color)
            )
        }
        Shape::Line {
            points,
            color,
            width,
        } => writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            list(points),
            hex(*color)
        ),
        Shape::Text {
            text,
            at: (x, y),
            size,
            anchor,
        } => {
            let (place, turn) = match anchor {
                Anchor::Start => ("start", String::new()),
                Anchor::Middle => ("middle", String::new()),
                Anchor::End => ("end", String::new()),
                Anchor::Upright => ("middle", format!(" transform=\"rotate(-90 {x} {y})\"")),
            };
            writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{}\" text-anchor=\"{place}\"{turn}>{}</text>",
                hex(INK),
                escaped(text)
            )
        }
    }
}

fn list(points: &[(f32, f32)]) -> String {
    let points: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    points.join(" ")
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(text: &str) -> Picture {
        let mut picture = Picture::new(100, 50);
        let square = vec![(10.0, 10.0), (40.0, 10.0), (40.0, 40.0), (10.0, 40.0)];
        picture.add(Shape::Area {
            points: square.clone(),
            color: [255, 0, 16],
        });
        picture.add(Shape::Line {
            points: square,
            color: [0, 0, 0],
            width: 2.0,
        });
        for anchor in [Anchor::Start, Anchor::Upright] {
            let text = text.to_owned();
            picture.add(Shape::Text {
                text,
                at: (50.0, 30.0),
                size: 9.0,
                anchor,
            });
        }
        picture
    }

    #[test]
    fn png_and_svg_contain_every_shape() {
        let svg = picture("a").svg();
        for part in [
            "<svg ",
            "10.0,10.0 40.0,10.0",
            "#ff0010",
            "stroke-width=\"2\"",
            "rotate(-90 50 30)",
            "</svg>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        let png = picture("a").png().unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        assert_ne!(png, Picture::new(100, 50).png().unwrap());
    }

    #[test]
    fn svg_text_is_escaped() {
        let svg = picture("<script>&\u{7}").svg();
        assert!(svg.contains(">&lt;script&gt;&amp;</text>"), "{svg}");
    }
}
