//! Calendars as a picture: for each link its free capacity (gamma in the VBLS paper), and below it the reservations.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_booking_client::json::{Allocation, CalendarView, Timestamp};
use lighthaul_plot::picture::{Anchor, Picture, Shape};

use crate::axis::Axis;
use crate::label::{rate, shown};

/// Draws calendars, one below the other.
pub fn draw(calendars: &[CalendarView], from: Timestamp, till: Timestamp) -> Picture {
    let axis = Axis::new(from, till, 1);
    let plates = u32::try_from(calendars.len()).unwrap_or(u32::MAX).max(1);
    let height = plates.saturating_mul(PLATE).saturating_add(2 * EDGE);
    let mut picture = Picture::new(WIDTH, height);
    for (nth, calendar) in calendars.iter().enumerate() {
        let top = EDGE as f32 + nth as f32 * PLATE as f32;
        let mut plate = Plate {
            picture: &mut picture,
            axis,
            capacity: calendar.capacity_bps.max(1),
            ranks: ranks(&calendar.allocations),
        };
        let title = format!(
            "{}, {}: {} till {}",
            calendar.link,
            rate(calendar.capacity_bps),
            shown(from),
            shown(till)
        );
        plate.text(&title, (LEFT, top), 15.0, Anchor::Start);
        plate.free(calendar, top + TITLE);
        plate.allocations(&calendar.allocations, top + TITLE + PANEL + GAP);
    }
    picture
}

/// Returns the label of an allocation, placed where it is widest.
struct Label {
    text: String,
    at: (f32, f32),
    room: f32,
}

/// Maps each reservation to its index in the order of numbers.
fn ranks(allocations: &[Allocation]) -> BTreeMap<u64, usize> {
    let ids: BTreeSet<u64> = allocations.iter().map(|part| part.id).collect();
    ids.into_iter().zip(0..).collect()
}

/// Returns the times at which an allocation begins or ends, in order.
fn edges(allocations: &[Allocation]) -> Vec<(Timestamp, bool, &Allocation)> {
    let begins = allocations.iter().map(|part| (part.from, true, part));
    let ends = allocations.iter().map(|part| (part.till, false, part));
    let mut edges: Vec<_> = begins.chain(ends).collect();
    edges.sort_by_key(|(at, begins, part)| (*at, *begins, part.id));
    edges
}

/// Drawing of one link.
struct Plate<'a> {
    picture: &'a mut Picture,
    axis: Axis,
    capacity: u64,
    /// Index of each reservation, for its color.
    ranks: BTreeMap<u64, usize>,
}

impl Plate<'_> {
    /// Draws the free capacity as an area with its edge.
    fn free(&mut self, calendar: &CalendarView, top: f32) {
        self.frame("free", top);
        let mut edge = Vec::new();
        for free in &calendar.free {
            let y = self.y(free.bps, top);
            edge.extend([(self.x(free.from), y), (self.x(free.till), y)]);
        }
        let (Some(first), Some(last)) = (edge.first().copied(), edge.last().copied()) else {
            return;
        };
        let bottom = top + PANEL;
        let mut points = edge.clone();
        points.extend([(last.0, bottom), (first.0, bottom)]);
        self.area(points, FREE);
        self.line(edge, EDGE_OF_FREE, 2.0);
    }

    /// Draws the rate of each reservation on top of those with lower numbers.
    fn allocations(&mut self, allocations: &[Allocation], top: f32) {
        self.frame("booked", top);
        self.times(top + PANEL);
        let mut labels: BTreeMap<u64, Label> = BTreeMap::new();
        let mut now = self.axis.from();
        let mut active: BTreeMap<u64, &Allocation> = BTreeMap::new();
        for (at, begins, part) in edges(allocations) {
            let till = at.clamp(self.axis.from(), self.axis.till());
            if now < till {
                self.stack(&active, (now, till, top), &mut labels);
                now = till;
            }
            if begins {
                active.insert(part.id, part);
            } else {
                active.remove(&part.id);
            }
        }
        for label in labels.into_values() {
            if label.room > label.text.len() as f32 * 6.5 {
                self.text(&label.text, label.at, 11.0, Anchor::Middle);
            }
        }
    }

    /// Returns the rates of reservations between two times, each with the place of its label.
    fn stack(
        &mut self,
        active: &BTreeMap<u64, &Allocation>,
        (from, till, top): (Timestamp, Timestamp, f32),
        labels: &mut BTreeMap<u64, Label>,
    ) {
        // whole pixels, so that no seam is visible between neighbors
        let (left, right) = (self.x(from).round(), self.x(till).round());
        let mut below = 0_u64;
        for part in active.values() {
            let above = below.saturating_add(part.bps);
            let (low, high) = (self.y(below, top), self.y(above, top));
            below = above;
            let corners = vec![(left, low), (left, high), (right, high), (right, low)];
            let nth = self.ranks.get(&part.id).copied().unwrap_or(0);
            self.area(corners, COLORS[nth % COLORS.len()]);
            let room = if low - high < 12.0 { 0.0 } else { right - left };
            if labels.get(&part.id).is_none_or(|label| label.room < room) {
                let owner = part.owner.as_deref().unwrap_or("others");
                let label = Label {
                    text: format!("{owner} {}", part.id),
                    at: (f32::midpoint(left, right), f32::midpoint(low, high) + 4.0),
                    room,
                };
                labels.insert(part.id, label);
            }
        }
    }

    /// Draws lines at zero, half and all of the capacity.
    fn frame(&mut self, name: &str, top: f32) {
        for bps in [0, self.capacity / 2, self.capacity] {
            let y = self.y(bps, top);
            self.line(vec![(LEFT, y), (RIGHT, y)], GRID, 1.0);
            self.text(&rate(bps), (LEFT - 8.0, y + 4.0), 12.0, Anchor::End);
        }
        self.text(name, (18.0, top + PANEL / 2.0), 13.0, Anchor::Upright);
    }

    fn times(&mut self, bottom: f32) {
        for (at, name) in self.axis.ticks(10) {
            let x = self.x(at);
            self.line(vec![(x, bottom), (x, bottom + 5.0)], INK, 1.0);
            self.text(&name, (x, bottom + 18.0), 12.0, Anchor::Middle);
        }
    }

    fn x(&self, at: Timestamp) -> f32 {
        LEFT + (RIGHT - LEFT) * self.axis.part(at) as f32
    }

    fn y(&self, bps: u64, top: f32) -> f32 {
        let part = bps as f64 / self.capacity as f64;
        top + PANEL * (1.0 - part.min(1.0) as f32)
    }

    fn area(&mut self, points: Vec<(f32, f32)>, color: [u8; 3]) {
        self.picture.add(Shape::Area { points, color });
    }

    fn line(&mut self, points: Vec<(f32, f32)>, color: [u8; 3], width: f32) {
        self.picture.add(Shape::Line {
            points,
            color,
            width,
        });
    }

    fn text(&mut self, text: &str, at: (f32, f32), size: f32, anchor: Anchor) {
        let text = text.to_owned();
        self.picture.add(Shape::Text {
            text,
            at,
            size,
            anchor,
        });
    }
}

const WIDTH: u32 = 960;
const LEFT: f32 = 110.0;
const RIGHT: f32 = 940.0;
const EDGE: u32 = 24;
const TITLE: f32 = 14.0;
const PANEL: f32 = 150.0;
const GAP: f32 = 16.0;
/// Height of one link: title, two panels, the gap between them, and the axis.
const PLATE: u32 = 380;
const INK: [u8; 3] = [40, 40, 40];
const GRID: [u8; 3] = [225, 225, 225];
const FREE: [u8; 3] = [206, 230, 245];
const EDGE_OF_FREE: [u8; 3] = [0, 114, 178];
/// Colors that are light enough for text on them, and distinct with red-green color blindness.
const COLORS: [[u8; 3]; 7] = [
    [240, 228, 140],
    [150, 205, 235],
    [245, 190, 110],
    [150, 215, 190],
    [230, 180, 205],
    [200, 200, 200],
    [240, 170, 140],
];

#[cfg(test)]
mod tests {
    use lighthaul_booking_client::json::Free;

    use super::*;

    #[test]
    fn picture_shows_free_and_booked_capacity() {
        let (from, till) = (Timestamp(0), Timestamp(4_000_000_000));
        let middle = Timestamp(2_000_000_000);
        let free = |from, till, bps| Free { from, till, bps };
        let calendar = CalendarView {
            link: "a-b".to_owned(),
            capacity_bps: 1_000_000_000,
            free: vec![
                free(from, middle, 250_000_000),
                free(middle, till, 1_000_000_000),
            ],
            allocations: vec![Allocation {
                id: 17,
                owner: Some("ada".to_owned()),
                from,
                till: middle,
                bps: 750_000_000,
            }],
        };
        let svg = draw(&[calendar], from, till).svg();
        for part in [
            "a-b, 1 Gb/s: 1970-01-01",
            ">ada 17<",
            ">500 Mb/s<",
            ">00:00:02<",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        // a quarter is free till the middle of the axis, and all behind it
        assert!(
            svg.contains("110.0,150.5 525.0,150.5 525.0,38.0 940.0,38.0"),
            "{svg}"
        );
    }
}
