//! Heat maps: panels of colored cells, with a number in each, and notes below.
//!
//! ```text
//!         column labels              scale of colors
//! row     +----+----+----+
//! labels  | 98 | 91 | 55 |           Panel, with its title above
//!         +----+----+----+           and its notes below
//! ```

use crate::canvas::{Anchor, Canvas, rectangle};

/// Picture of several panels.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Title of the picture.
    pub title: String,
    /// Explanation below the title.
    pub below: String,
    /// Panels, in rows of `columns`.
    pub panels: Vec<Panel>,
    /// Number of panels beside each other.
    pub columns: usize,
}

/// Matrix of cells.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Title of the panel.
    pub title: String,
    /// Labels of the rows, in groups: the label of the group, and the labels of its rows.
    pub rows: Vec<(String, Vec<String>)>,
    /// Labels of the columns, in groups like the rows.
    pub columns: Vec<(String, Vec<String>)>,
    /// Cells, row by row. A missing cell stays white.
    pub cells: Vec<Option<Cell>>,
    /// Lines below the matrix.
    pub notes: Vec<String>,
}

/// Colored cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Text in the cell.
    pub text: String,
    /// Red, green and blue.
    pub color: [u8; 3],
    /// True to draw a frame around the cell.
    pub is_marked: bool,
}

impl HeatMap {
    /// Draws the picture. Returns a PNG image.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        let across = self.columns.max(1);
        let down = self.panels.len().div_ceil(across);
        let (width, height) = self.panel_size();
        let canvas = (across as f32 * width + MARGIN, HEAD + down as f32 * height);
        let mut canvas = Canvas::new(pixels(canvas.0), pixels(canvas.1));
        canvas.text(&self.title, (MARGIN, 40.0), 26.0, Anchor::Start);
        canvas.text(&self.below, (MARGIN, 68.0), 15.0, Anchor::Start);
        for (nth, panel) in self.panels.iter().enumerate() {
            let (column, row) = (nth % across, nth / across);
            let corner = (column as f32 * width, HEAD + row as f32 * height);
            panel.draw(&mut canvas, corner);
        }
        canvas.png()
    }

    /// Returns the size of the largest panel.
    fn panel_size(&self) -> (f32, f32) {
        let ruler = Canvas::new(1, 1);
        let panels = self.panels.iter().map(|panel| panel.size(&ruler));
        panels.fold((0.0, 0.0), |most, size| {
            (f32::max(most.0, size.0), f32::max(most.1, size.1))
        })
    }
}

impl Panel {
    /// Returns the size of the panel, large enough for its texts.
    fn size(&self, ruler: &Canvas) -> (f32, f32) {
        let title = LEFT + ruler.width(&self.title, 19.0);
        let notes = self
            .notes
            .iter()
            .map(|note| MARGIN + ruler.width(note, 14.0));
        let texts = notes.fold(title, f32::max);
        let width = f32::max(LEFT + count(&self.columns) as f32 * CELL.0, texts) + MARGIN;
        let rows = count(&self.rows) as f32 * CELL.1;
        let notes = self.notes.len() as f32 * NOTE;
        (width, TOP + rows + notes + MARGIN)
    }

    fn draw(&self, canvas: &mut Canvas, (left, top): (f32, f32)) {
        let (x, y) = (left + LEFT, top + TOP);
        let (across, down) = (count(&self.columns), count(&self.rows));
        canvas.text(&self.title, (x, top + 22.0), 19.0, Anchor::Start);
        for (nth, cell) in self.cells.iter().enumerate() {
            let (column, row) = (nth % across.max(1), nth / across.max(1));
            let corner = (x + column as f32 * CELL.0, y + row as f32 * CELL.1);
            if let Some(cell) = cell {
                cell.draw(canvas, corner);
            }
        }
        let mut from = 0;
        for (group, labels) in &self.columns {
            for (nth, label) in labels.iter().enumerate() {
                let middle = x + (from + nth) as f32 * CELL.0 + CELL.0 / 2.0;
                canvas.text(label, (middle, y - 8.0), 13.0, Anchor::Middle);
            }
            let middle = x + (from as f32 + labels.len() as f32 / 2.0) * CELL.0;
            canvas.text(group, (middle, y - 27.0), 14.0, Anchor::Middle);
            from += labels.len();
            rule(
                canvas,
                (x + from as f32 * CELL.0, y),
                (0.0, down as f32 * CELL.1),
            );
        }
        let mut from = 0;
        for (group, labels) in &self.rows {
            for (nth, label) in labels.iter().enumerate() {
                let middle = y + (from + nth) as f32 * CELL.1 + CELL.1 / 2.0 + 5.0;
                canvas.text(label, (x - 8.0, middle), 13.0, Anchor::End);
            }
            let middle = y + (from as f32 + labels.len() as f32 / 2.0) * CELL.1;
            canvas.text(group, (left + 30.0, middle), 14.0, Anchor::Upright);
            from += labels.len();
            rule(
                canvas,
                (x, y + from as f32 * CELL.1),
                (across as f32 * CELL.0, 0.0),
            );
        }
        let bottom = y + down as f32 * CELL.1 + 8.0;
        for (nth, note) in self.notes.iter().enumerate() {
            let at = (left + 22.0, bottom + (nth + 1) as f32 * NOTE);
            canvas.text(note, at, 14.0, Anchor::Start);
        }
    }
}

impl Cell {
    fn draw(&self, canvas: &mut Canvas, (x, y): (f32, f32)) {
        let shape = rectangle((x + 0.5, y + 0.5), CELL.0 - 1.0, CELL.1 - 1.0);
        canvas.fill(&shape, self.color);
        if self.is_marked {
            let frame = rectangle((x + 2.0, y + 2.0), CELL.0 - 4.0, CELL.1 - 4.0);
            canvas.outline(&frame, crate::canvas::INK);
        }
        let middle = (x + CELL.0 / 2.0, y + CELL.1 / 2.0 + 5.0);
        canvas.text(&self.text, middle, 13.0, Anchor::Middle);
    }
}

/// Returns a color between red, for zero, and green, for one.
pub fn scale(share: f64) -> [u8; 3] {
    let share = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let below = share.floor();
    #[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
    let nth = below as usize;
    let (from, till) = (STOPS[nth], STOPS[(nth + 1).min(STOPS.len() - 1)]);
    let mut color = from;
    for (mixed, end) in color.iter_mut().zip(till) {
        let (start, end) = (f64::from(*mixed), f64::from(end));
        #[expect(clippy::cast_sign_loss, reason = "both ends are colors")]
        let part = (start + (end - start) * (share - below)).round() as u8;
        *mixed = part;
    }
    color
}

/// Draws a line between groups.
fn rule(canvas: &mut Canvas, from: (f32, f32), (width, height): (f32, f32)) {
    let till = (from.0 + width, from.1 + height);
    canvas.line(&[from, till], [120, 120, 120], 1.0);
}

fn count(groups: &[(String, Vec<String>)]) -> usize {
    groups.iter().map(|(_, labels)| labels.len()).sum()
}

#[expect(clippy::cast_sign_loss, reason = "a length is not negative")]
fn pixels(length: f32) -> u32 {
    length.ceil() as u32
}

/// Colors from the worst to the best, which color-blind readers can tell apart by their lightness.
const STOPS: [[u8; 3]; 5] = [
    [202, 72, 62],
    [240, 146, 96],
    [250, 219, 152],
    [196, 224, 190],
    [116, 183, 166],
];
const CELL: (f32, f32) = (36.0, 24.0);
const LEFT: f32 = 112.0;
const TOP: f32 = 80.0;
const HEAD: f32 = 96.0;
const NOTE: f32 = 21.0;
const MARGIN: f32 = 22.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_runs_between_its_ends() {
        assert_eq!(scale(-1.0), STOPS[0]);
        assert_eq!(scale(0.25), STOPS[1]);
        assert_eq!(scale(2.0), STOPS[4]);
        assert_eq!(scale(0.125), [221, 109, 79]);
    }

    #[test]
    fn picture_has_room_for_all_panels() {
        let labels = |count: usize| vec![("group".to_owned(), vec!["1".to_owned(); count])];
        let panel = Panel {
            title: "t".to_owned(),
            rows: labels(2),
            columns: labels(3),
            cells: vec![None; 6],
            notes: vec!["note".to_owned()],
        };
        let map = HeatMap {
            title: "t".to_owned(),
            below: "b".to_owned(),
            panels: vec![panel; 3],
            columns: 2,
        };
        let png = map.png().unwrap();
        // width and height in the header of the image
        let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        let (width, height) = map.panels[0].size(&Canvas::new(1, 1));
        assert!(f64::from(number(16)) >= f64::from(2.0 * width));
        assert!(f64::from(number(20)) >= f64::from(2.0 * height));
    }
}
