//! Calendars as a picture: for each link its free capacity (gamma in the VBLS paper), and below it
//! the reservations.
//!
//! A reservation has one color on all links. Its name is written inside its area, or in the legend
//! if the area is too narrow. The picture depends on the calendars and the axis alone.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_booking_client::json::{Allocation, CalendarView, Timestamp};
use lighthaul_plot::picture::{Anchor, Picture, Shape};

use crate::axis::Axis;
use crate::label::rate;

/// Draws calendars, one below the other, along `axis`.
pub fn draw(calendars: &[CalendarView], axis: Axis) -> Picture {
    let ranks = ranks(calendars);
    let mut shapes = Vec::new();
    let mut top = EDGE as f32;
    for calendar in calendars {
        let mut plate = LinkPanel {
            shapes: &mut shapes,
            axis,
            capacity: calendar.capacity_bps.max(1),
            ranks: &ranks,
        };
        let title = format!(
            "{}, {}: {} till {}",
            calendar.link,
            rate(calendar.capacity_bps),
            axis.zone().shown(axis.from()),
            axis.zone().shown(axis.till())
        );
        plate.text(&title, (LEFT, top), 15.0, Anchor::Start);
        plate.free(calendar, top + TITLE);
        let legend = plate.allocations(&calendar.allocations, top + TITLE + PANEL + GAP);
        top += PLATE + legend;
    }
    #[expect(clippy::cast_sign_loss, reason = "heights add up")]
    let mut picture = Picture::new(WIDTH, top as u32 + EDGE);
    for shape in shapes {
        picture.add(shape);
    }
    picture
}

/// Name of a reservation, at the widest place of its area.
struct Label {
    text: String,
    at: (f32, f32),
    room: f32,
}

impl Label {
    /// Returns true if the label fits into the area of its reservation.
    fn fits(&self) -> bool {
        self.room > self.width()
    }

    /// Returns the approximate width of the label in pixels.
    fn width(&self) -> f32 {
        self.text.chars().count() as f32 * LETTER
    }
}

/// Maps each reservation to its index in the order of numbers, so that its color is the same on all links.
fn ranks(calendars: &[CalendarView]) -> BTreeMap<u64, usize> {
    let parts = calendars.iter().flat_map(|calendar| &calendar.allocations);
    let ids: BTreeSet<u64> = parts.map(|part| part.id).collect();
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
struct LinkPanel<'a> {
    shapes: &'a mut Vec<Shape>,
    axis: Axis,
    capacity: u64,
    /// Index of each reservation, for its color.
    ranks: &'a BTreeMap<u64, usize>,
}

impl LinkPanel<'_> {
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

    /// Draws the rate of each reservation on top of reservations with lower numbers. Returns the height of the legend.
    fn allocations(&mut self, allocations: &[Allocation], top: f32) -> f32 {
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
        let (inside, narrow): (BTreeMap<_, _>, BTreeMap<_, _>) =
            labels.into_iter().partition(|(_, label)| label.fits());
        for label in inside.into_values() {
            self.text(&label.text, label.at, 11.0, Anchor::Middle);
        }
        self.legend(&narrow, top + PANEL + AXIS)
    }

    /// Draws a legend for the reservations whose areas are too narrow for their names. Returns the height.
    fn legend(&mut self, narrow: &BTreeMap<u64, Label>, top: f32) -> f32 {
        let (mut x, mut rows) = (LEFT, 0);
        for (nth, (id, label)) in narrow.iter().enumerate() {
            let width = BOX + 6.0 + label.width() + 18.0;
            if rows == 0 || x + width > RIGHT {
                (x, rows) = (LEFT, rows + 1);
            }
            let y = top + rows as f32 * ROW;
            let left = narrow.len() - nth;
            if rows == ROWS_MAX && x + 2.0 * width > RIGHT && left > 1 {
                self.text(&format!("and {left} more"), (x, y), 11.0, Anchor::Start);
                break;
            }
            let (low, high) = (y, y - BOX);
            let corners = vec![(x, low), (x, high), (x + BOX, high), (x + BOX, low)];
            self.area(corners, self.color(*id));
            self.text(&label.text, (x + BOX + 6.0, y), 11.0, Anchor::Start);
            x += width;
        }
        rows as f32 * ROW
    }

    fn color(&self, id: u64) -> [u8; 3] {
        let nth = self.ranks.get(&id).copied().unwrap_or(0);
        COLORS[nth % COLORS.len()]
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
            self.area(corners, self.color(part.id));
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
        let zone = self.axis.zone_name();
        self.text(&zone, (LEFT - 34.0, bottom + 18.0), 12.0, Anchor::End);
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
        self.shapes.push(Shape::Area { points, color });
    }

    fn line(&mut self, points: Vec<(f32, f32)>, color: [u8; 3], width: f32) {
        self.shapes.push(Shape::Line {
            points,
            color,
            width,
        });
    }

    fn text(&mut self, text: &str, at: (f32, f32), size: f32, anchor: Anchor) {
        let text = text.to_owned();
        self.shapes.push(Shape::Text {
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
/// Height of the labels of the time axis.
const AXIS: f32 = 22.0;
/// Height of one link without its legend: title, two panels, the gap between them, and the axis.
const PLATE: f32 = 380.0;
/// Width of a letter of a label.
const LETTER: f32 = 6.5;
/// Size of the colored squares of a legend.
const BOX: f32 = 10.0;
/// Height of the rows of a legend.
const ROW: f32 = 18.0;
/// Maximum number of rows of a legend.
const ROWS_MAX: usize = 6;
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
    use lighthaul_booking_client::zone::Zone;

    use super::*;

    const FROM: Timestamp = Timestamp(0);
    const TILL: Timestamp = Timestamp(4_000_000_000);

    fn allocation(id: u64, owner: &str, (from, till): (u64, u64), mbps: u64) -> Allocation {
        Allocation {
            id,
            owner: Some(owner.to_owned()),
            from: Timestamp(from),
            till: Timestamp(till),
            bps: mbps * 1_000_000,
        }
    }

    fn calendar(free: Vec<Free>, allocations: Vec<Allocation>) -> CalendarView {
        CalendarView {
            link: "a-b".to_owned(),
            capacity_bps: 1_000_000_000,
            free,
            allocations,
        }
    }

    fn svg(calendars: &[CalendarView], zone: Zone) -> String {
        draw(calendars, Axis::new((FROM, TILL), 1, zone)).svg()
    }

    #[test]
    fn picture_shows_free_and_booked_capacity() {
        let middle = Timestamp(2_000_000_000);
        let free = |from, till, bps| Free { from, till, bps };
        let free = vec![
            free(FROM, middle, 250_000_000),
            free(middle, TILL, 1_000_000_000),
        ];
        let booked = vec![allocation(17, "ada", (0, middle.0), 750)];
        let svg = svg(&[calendar(free, booked)], Zone::UTC);
        for part in [
            "a-b, 1 Gb/s: 1970-01-01",
            ">ada 17<",
            ">500 Mb/s<",
            ">00:00:02<",
            ">UTC<",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        // a quarter is free till the middle of the axis, and all behind it
        assert!(
            svg.contains("110.0,150.5 525.0,150.5 525.0,38.0 940.0,38.0"),
            "{svg}"
        );
    }

    #[test]
    fn time_axis_names_its_zone() {
        let svg = svg(&[calendar(vec![], vec![])], Zone::new(|_| 3600));
        for part in [">UTC+01:00<", ">01:00:02<", "1970-01-01 01:00:00 +01:00"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn only_narrow_reservations_are_in_the_legend() {
        let wide = allocation(12, "ada", (0, 2_000_000_000), 750);
        let narrow = allocation(13, "alice", (2_000_000_000, 2_010_000_000), 750);
        let flat = allocation(14, "bob", (2_010_000_000, 4_000_000_000), 10);
        let booked = vec![wide.clone(), narrow, flat];
        let [one, two] = [vec![wide], booked].map(|booked| {
            let svg = svg(&[calendar(vec![], booked)], Zone::UTC);
            let height = svg.split("height=\"").nth(1).unwrap();
            let height: u32 = height.split('"').next().unwrap().parse().unwrap();
            (svg, height)
        });
        // one row of a legend
        assert_eq!(two.1, one.1 + 18);
        for name in [">ada 12<", ">alice 13<", ">bob 14<"] {
            assert_eq!(two.0.matches(name).count(), 1, "{name}: {}", two.0);
        }
    }

    #[test]
    fn legend_is_short_and_counts_further_reservations() {
        let begin = |id: u64| id * 1_000_000;
        let booked = (100..400).map(|id| allocation(id, "alice", (begin(id), begin(id + 1)), 500));
        let svg = svg(&[calendar(vec![], booked.collect())], Zone::UTC);
        let named = svg.matches(">alice ").count();
        assert!((30..100).contains(&named), "{named}");
        assert!(
            svg.contains(&format!(">and {} more<", 300 - named)),
            "{svg}"
        );
    }

    #[test]
    fn reservation_has_one_color_on_all_links() {
        let booked = [
            vec![
                allocation(1, "ada", (0, 2_000_000_000), 500),
                allocation(2, "bob", (2_000_000_000, 4_000_000_000), 500),
            ],
            vec![allocation(2, "bob", (2_000_000_000, 4_000_000_000), 500)],
        ];
        let calendars = booked.map(|booked| calendar(vec![], booked));
        let alone = svg(&calendars, Zone::UTC);
        assert_eq!(alone.matches(&hex(COLORS[1])).count(), 2, "{alone}");
        assert_eq!(alone.matches(&hex(COLORS[0])).count(), 1, "{alone}");
    }

    fn hex([red, green, blue]: [u8; 3]) -> String {
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}
