//! Sheet: panels of curves below a title, as PNG.
//!
//! ```text
//!                title
//!     key, if all panels have the same curves
//!  +--------------+              +--------------+
//!  | panel        |-- label      | panel        |-- label
//!  +--------------+              +--------------+
//! ```
//!
//! Nothing is written over the data: labels are beside the ends of their curves, or in the key. Equal input gives the
//! same pixels on each host, so a picture that changed has other numbers.

use crate::canvas::{Anchor, Canvas};
use crate::curve::Curve;
use crate::panel::{Frame, Panel, SAMPLE, SIZE};

/// Panels of curves below a title.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Title of the picture.
    pub title: String,
    /// Panels, in rows of `columns`.
    pub panels: Vec<Panel>,
    /// Number of panels beside each other.
    pub columns: usize,
}

impl Sheet {
    /// Creates a sheet of panels one below the other.
    pub fn new(title: &str, panels: Vec<Panel>) -> Self {
        Self {
            title: title.to_owned(),
            panels,
            columns: 1,
        }
    }

    /// Draws the sheet. Returns a PNG image.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        let columns = self.columns.max(1);
        let rows = self.panels.len().div_ceil(columns);
        let width = if columns > 1 { WIDE } else { WIDTH };
        // measures texts before the size of the picture is known
        let ruler = Canvas::new(1, 1);
        let has_key = self.has_common_curves();
        let key = if has_key {
            self.key(&ruler, width)
        } else {
            Vec::new()
        };
        let head = TITLE + key.len() as f32 * KEY_LINE;
        let labels = (!has_key).then(|| {
            let widths = self.panels.iter().map(|panel| panel.labels_width(&ruler));
            widths.fold(0.0, f32::max)
        });
        let (inner, title) = (self.inner_height(), self.title_height());
        let is_repeated = self.has_common_axis();
        let outer = |row: usize| {
            let has_below = !is_repeated || row + 1 == rows;
            title + inner + if has_below { BELOW } else { TICKS }
        };
        let height = head + (0..rows).map(outer).sum::<f32>();
        let mut canvas = Canvas::new(pixels(width), pixels(height));
        let middle = width / 2.0;
        canvas.text(&self.title, (middle, 44.0), 24.0, Anchor::Middle);
        for (row, entries) in key.iter().enumerate() {
            for (curve, x) in entries {
                let y = TITLE + row as f32 * KEY_LINE - 4.0;
                curve.sample(&mut canvas, (*x, y), SAMPLE);
                let beside = (x + SAMPLE + 10.0, y + 6.0);
                canvas.text(&curve.label, beside, SIZE, Anchor::Start);
            }
        }
        let each = width / columns as f32;
        for (nth, panel) in self.panels.iter().enumerate() {
            let (row, column) = (nth / columns, nth % columns);
            let top = head + title + (0..row).map(outer).sum::<f32>();
            let left = column as f32 * each + LEFT;
            let frame = Frame {
                left,
                right: (column + 1) as f32 * each - labels.unwrap_or(RIGHT),
                top,
                bottom: top + inner,
                has_labels: labels.is_some(),
                has_below: !is_repeated || row + 1 == rows,
            };
            panel.draw(&mut canvas, &frame);
        }
        canvas.png()
    }

    /// True if all panels have the same curves, so that one key names them.
    fn has_common_curves(&self) -> bool {
        let mut all = self.panels.iter().map(|panel| {
            let curves = panel.labels().into_iter();
            curves.map(|curve| (curve.label, curve.color)).collect()
        });
        let first: Vec<_> = all.next().unwrap_or_default();
        self.panels.len() > 1 && all.all(|curves| curves == first)
    }

    /// True if panels in a column share their horizontal axis.
    fn has_common_axis(&self) -> bool {
        let mut axes = self.panels.iter().map(|panel| &panel.x.label);
        let first = axes.next();
        axes.all(|axis| Some(axis) == first)
    }

    /// Returns the rows of the key: each entry, and its place.
    fn key(&self, ruler: &Canvas, width: f32) -> Vec<Vec<(Curve, f32)>> {
        let curves = self.panels.first().map(Panel::labels).unwrap_or_default();
        let mut rows: Vec<Vec<(Curve, f32)>> = Vec::new();
        let mut next = width;
        for curve in curves {
            let length = SAMPLE + 10.0 + ruler.width(&curve.label, SIZE);
            if next + length > width - RIGHT {
                rows.push(Vec::new());
                next = LEFT;
            }
            if let Some(row) = rows.last_mut() {
                row.push((curve, next));
            }
            next += length + 40.0;
        }
        rows
    }

    /// Returns the height of the data of a panel.
    fn inner_height(&self) -> f32 {
        match (self.panels.len(), self.columns) {
            (_, 2..) => 430.0,
            (0 | 1, _) => 540.0,
            (2, _) => 330.0,
            (3, _) => 240.0,
            _ => 190.0,
        }
    }

    fn title_height(&self) -> f32 {
        let has_titles = self.panels.iter().any(|panel| !panel.title.is_empty());
        if has_titles { 40.0 } else { 18.0 }
    }
}

#[expect(clippy::cast_sign_loss, reason = "a length is not negative")]
fn pixels(length: f32) -> u32 {
    length.ceil() as u32
}

const WIDTH: f32 = 1200.0;
/// Width of a sheet with panels beside each other.
const WIDE: f32 = 1500.0;
/// Place of the data's left end, for the numbers and the label of the vertical axis.
const LEFT: f32 = 106.0;
/// Space to the right of the data, without labels.
const RIGHT: f32 = 28.0;
/// Height of the title.
const TITLE: f32 = 74.0;
const KEY_LINE: f32 = 30.0;
/// Height of the area below the data with the numbers of the axis alone.
const TICKS: f32 = 42.0;
/// Height of the area below the data with the numbers and the label of the axis.
const BELOW: f32 = 74.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panel::Axis;

    fn panel(labels: &[&str]) -> Panel {
        let curve = |(nth, label): (usize, &&str)| Curve::new(nth, label, vec![(1.0, 2.0)]);
        Panel {
            x: Axis::new("x"),
            y: Axis::new("y"),
            curves: labels.iter().enumerate().map(curve).collect(),
            ..Panel::default()
        }
    }

    #[test]
    fn panels_with_the_same_curves_share_a_key() {
        let sheet = Sheet::new("t", vec![panel(&["a", "b"]), panel(&["a", "b"])]);
        assert!(sheet.has_common_curves());
        let key = sheet.key(&Canvas::new(1, 1), WIDTH);
        assert_eq!(key.iter().map(Vec::len).collect::<Vec<_>>(), [2]);
        let narrow = sheet.key(&Canvas::new(1, 1), 250.0);
        assert_eq!(narrow.len(), 2);
        let other = Sheet::new("t", vec![panel(&["a", "b"]), panel(&["a", "c"])]);
        assert!(!other.has_common_curves());
        assert!(!Sheet::new("t", vec![panel(&["a"])]).has_common_curves());
    }

    #[test]
    fn equal_sheets_have_equal_pixels() {
        let png = |label| Sheet::new("t", vec![panel(&[label])]).png().unwrap();
        assert_eq!(png("a"), png("a"));
        assert_ne!(png("a"), png("b"));
    }
}
