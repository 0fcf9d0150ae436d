//! Numbers of a paper, which a picture has beside the curves.

use std::collections::BTreeMap;

use lighthaul_plot::curve::{Curve, Mark};
use lighthaul_plot::panel::Panel;
use serde::Deserialize;

/// Numbers of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperNumbers {
    /// Label in the picture.
    label: String,
    /// Name of the curve to compare with the numbers. They are in its panel, and have its color.
    beside: String,
    /// Points: horizontal and vertical value.
    #[serde(default)]
    points: Vec<[f64; 2]>,
    /// Intervals: horizontal value, and both ends.
    #[serde(default)]
    intervals: Vec<[f64; 3]>,
    /// Value that is the same everywhere.
    level: Option<f64>,
}

/// Panels of a picture in order, with the panel and the color of each curve.
#[derive(Debug, Default)]
pub(crate) struct Panels {
    pub(crate) panels: Vec<Panel>,
    places: BTreeMap<String, (usize, [u8; 3])>,
}

impl Panels {
    /// Returns the panel titled `title`; if it is missing, `create` makes it.
    pub(crate) fn panel(&mut self, title: &str, create: impl FnOnce() -> Panel) -> usize {
        let known = self.panels.iter().position(|panel| panel.title == title);
        known.unwrap_or_else(|| {
            let title = title.to_owned();
            self.panels.push(Panel { title, ..create() });
            self.panels.len() - 1
        })
    }

    /// Adds a curve to a panel. Numbers of a paper can be beside it.
    pub(crate) fn add(&mut self, panel: usize, name: &str, curve: Curve) {
        let place = (panel, curve.color);
        self.places.entry(name.to_owned()).or_insert(place);
        self.panels[panel].curves.push(curve);
    }

    /// Adds numbers of papers, each beside the curve for comparison.
    pub(crate) fn add_papers(&mut self, papers: &[PaperNumbers]) -> Result<(), String> {
        for paper in papers {
            let place = self.places.get(&paper.beside).copied();
            let (panel, color) = place
                .ok_or_else(|| format!("paper {:?}: no curve {:?}", paper.label, paper.beside))?;
            let panel = &mut self.panels[panel];
            let points: Vec<_> = paper.points.iter().map(|[x, y]| (*x, *y)).collect();
            let intervals = paper.intervals.iter();
            let intervals: Vec<_> = intervals.map(|[x, a, b]| (*x, [*a, *b])).collect();
            if !points.is_empty() || !intervals.is_empty() {
                let mut curve = Curve::of_paper(&paper.label, points).color(color);
                if !intervals.is_empty() {
                    curve = curve.mark(Mark::None);
                }
                curve.intervals = intervals;
                panel.curves.push(curve);
            }
            if let Some(level) = paper.level {
                panel.levels.push((paper.label.clone(), level));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_papers_are_drawn_with_their_curves() {
        let paper = |beside: &str| PaperNumbers {
            label: "paper".to_owned(),
            beside: beside.to_owned(),
            points: vec![[1.0, 2.0]],
            intervals: Vec::new(),
            level: Some(3.0),
        };
        let mut panels = Panels::default();
        for (nth, name) in ["a", "b"].into_iter().enumerate() {
            let panel = panels.panel(name, Panel::default);
            panels.add(panel, name, Curve::new(nth, name, Vec::new()));
        }
        assert_eq!(panels.add_papers(&[paper("b")]), Ok(()));
        assert!(panels.add_papers(&[paper("c")]).is_err());
        let [first, second] = &panels.panels[..] else {
            panic!("two panels");
        };
        assert_eq!((first.curves.len(), second.curves.len()), (1, 2));
        assert_eq!(second.curves[0].color, second.curves[1].color);
        assert_eq!(second.levels, [("paper".to_owned(), 3.0)]);
    }
}
