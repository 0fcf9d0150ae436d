//! The command `bench --grid`: simulates or emulates all points, and writes the page.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use lighthaul_io::host::clock::Clock;

use super::super::args::GridArgs;
use super::emulated;
use super::page::{self, Environment};
use super::picture;
use super::plan::{Axes, GridPlan};
use super::point::{Choice, Condition, Point};
use super::results::Results;
use super::simulated::Simulation;
use super::table::{Column, Row, Table};

/// Runs the grid.
pub(crate) fn run(args: &GridArgs, quick: bool, lighthaul: &Path) -> io::Result<()> {
    let plan = GridPlan::read(&args.grid_dir.join("grid.toml")).map_err(io::Error::other)?;
    let mut text = page::HEAD.to_owned();
    for world in [Environment::Simulated, Environment::Emulated] {
        // few points can be emulated, as a real path takes real time
        let is_quick = quick || world == Environment::Emulated;
        let points = plan.points(is_quick);
        let file = args.grid_dir.join(world.name()).with_extension("csv");
        let mut results = Results::read(&file, &points)?;
        match world {
            Environment::Simulated if !args.emulate => simulate(&plan, &mut results, args.jobs)?,
            Environment::Emulated if args.emulate => emulated::run(&plan, &mut results, lighthaul)?,
            Environment::Simulated | Environment::Emulated => {}
        }
        let table = results.table;
        if table.rows.is_empty() {
            continue;
        }
        let axes = plan.axes(is_quick && points.len() >= table.rows.len());
        let png = draw(world, axes, &table).map_err(io::Error::other)?;
        fs::write(file.with_extension("png"), png)?;
        text.push_str(&page::write(world, &plan, axes, &table));
    }
    fs::write(args.grid_dir.join("README.md"), text)
}

/// Draws the table of a world. Returns a PNG image.
fn draw(world: Environment, axes: &Axes, table: &Table) -> Result<Vec<u8>, String> {
    let title = format!("auto beside the best fixed choice, {}", world.name());
    picture::draw(&title, axes, table)
}

/// Simulates the missing points on several threads.
fn simulate(plan: &GridPlan, results: &mut Results<'_>, jobs: usize) -> io::Result<()> {
    let clock = Clock::start();
    let missing = results.missing();
    let (all, next) = (missing.len(), AtomicUsize::new(0));
    let shared = Mutex::new(results);
    let work = || -> io::Result<()> {
        while let Some(point) = missing.get(next.fetch_add(1, Relaxed)) {
            let known = lock(&shared).table.row(&alone(point)).cloned();
            let row = simulated(plan, point, known.as_ref());
            lock(&shared).add(row, all)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..jobs.max(1) {
            workers.push(scope.spawn(work));
        }
        workers.into_iter().try_for_each(|worker| {
            let ended = worker.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let seconds = clock.now().as_secs_f64();
    writeln!(io::stderr(), "{all} points in {seconds:.0} s")
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the point with an idle path that the transfer knows to be dedicated.
const fn alone(point: &Point) -> Point {
    Point {
        condition: Condition::Alone,
        ..*point
    }
}

/// Simulates all choices at a point. Fixed choices do not depend on what the user says about the
/// path. So they are taken from `known`, the row of the same path, where it exists.
pub(crate) fn simulated(plan: &GridPlan, point: &Point, known: Option<&Row>) -> Row {
    let time = plan.time(point);
    let mut row = Row::new(*point);
    let known = known.filter(|_| point.condition == Condition::Untold);
    for choice in point.condition.choices() {
        let fixed = known.filter(|_| choice != Choice::Auto);
        if let Some(goodput) = fixed.and_then(|known| known.value(Column::Goodput(choice))) {
            row.set(Column::Goodput(choice), goodput);
            continue;
        }
        let simulation = Simulation::of(point, choice, time, plan.seed);
        let outcome = simulation.run();
        row.set(Column::Goodput(choice), outcome.goodput.as_mbps_f64());
        if let Some(neighbor) = outcome.neighbor {
            row.set(Column::Neighbor(choice), neighbor.as_mbps_f64());
        }
        if choice == Choice::Auto {
            row.protocol = outcome.protocol;
            if let Some(rate) = outcome.measured {
                row.set(Column::Measured, rate.as_mbps_f64());
            }
            row.set(Column::BeforeData, outcome.before_data.as_secs_f64() * 1e3);
            row.set(Column::Resent, outcome.resent_percent);
        }
    }
    if point.condition.is_shared() {
        let simulation = Simulation::of(point, Choice::Auto, time, plan.seed).of_equals();
        if let Some(neighbor) = simulation.run().neighbor {
            row.set(Column::Equals, neighbor.as_mbps_f64());
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use lighthaul_testkit::picture_fault;

    use super::super::verdict::Verdict;
    use super::*;

    /// Points of the accepted table that a test simulates again: few packets, and all conditions.
    fn is_short(point: &Point) -> bool {
        let is_far = point.rtt.as_millis() == 20;
        let path = (point.loss_ppb, point.queue_milli);
        point.rate.as_mbps_f64() < 200.0 && is_far && path == (1_000_000, 250)
    }

    #[test]
    fn accepted_table_equals_the_simulation() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/grid"));
        let plan = GridPlan::read(&folder.join("grid.toml")).unwrap();
        let table = Table::read(&folder.join("simulated.csv")).unwrap();
        let points: Vec<Point> = plan.points(false).into_iter().filter(is_short).collect();
        assert_eq!(points.len(), Condition::ALL.len());
        for point in points {
            let accepted = table.row(&point).expect("the table has the point");
            let again = simulated(&plan, &point, None);
            assert_eq!(again.protocol, accepted.protocol, "{point}");
            for choice in point.condition.choices() {
                let column = Column::Goodput(choice);
                let [now, then] = [&again, accepted].map(|row| row.value(column).unwrap());
                assert!(
                    (now / then - 1.0).abs() < 0.001,
                    "{point}, {choice:?}: {now}, accepted {then}"
                );
            }
        }
    }

    #[test]
    fn accepted_table_has_a_verdict_for_each_point() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/grid"));
        let plan = GridPlan::read(&folder.join("grid.toml")).unwrap();
        let table = Table::read(&folder.join("simulated.csv")).unwrap();
        let points = plan.points(false);
        assert_eq!(table.rows.len(), points.len());
        for point in points {
            let row = table.row(&point).expect("the table has the point");
            assert!(Verdict::of(row).is_some(), "{point}");
        }
    }

    #[test]
    fn page_matches_the_table() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/grid"));
        let plan = GridPlan::read(&folder.join("grid.toml")).unwrap();
        let table = Table::read(&folder.join("simulated.csv")).unwrap();
        let part = page::write(Environment::Simulated, &plan, plan.axes(false), &table);
        let text = fs::read_to_string(folder.join("README.md")).unwrap();
        assert!(text.starts_with(page::HEAD), "run the grid again");
        assert!(text.contains(&part), "run the grid again");
    }

    #[test]
    fn picture_matches_the_accepted_table() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/grid"));
        let plan = GridPlan::read(&folder.join("grid.toml")).unwrap();
        let table = Table::read(&folder.join("simulated.csv")).unwrap();
        let png = draw(Environment::Simulated, plan.axes(false), &table).unwrap();
        let fault = picture_fault(&folder.join("simulated.png"), io::Cursor::new(&png));
        assert_eq!(fault, None, "run the grid again");
    }
}
