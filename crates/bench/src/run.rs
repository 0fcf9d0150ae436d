//! Run of the bench: one lab after another, and the tables at the end.
//!
//! Cells with the same path share a lab, and the programs take turns within a cell. The program
//! under test is copied first, so that a build during the run changes nothing. After a failure, the
//! results so far are still published.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;

use super::args::{Args, InternalCommand};
use super::case::{Cell, Data, cells};
use super::guard::Guard;
use super::outcome::{Row, summarize};
use super::peers::{self, Peer};
use super::plan::{FileSet, Plan, Tools};
use super::table::{self, Report};
use super::{figure, folders, grid, inside, side};

/// Runs the bench with the arguments after `bench`.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = std::iter::once(OsString::from("bench"));
    let args = Args::parse_from(program.chain(words));
    let result = match &args.internal {
        Some(InternalCommand::Inside { plan }) => inside::run(plan),
        Some(InternalCommand::Side(side)) => side::run(side),
        None if args.grid.contests => grid::contests(&args.grid, args.quick),
        None if args.grid.grid => grid::run(&args.grid, args.quick, &args.lighthaul),
        None => run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs all measurements, and publishes the tables.
fn run(args: Args) -> io::Result<()> {
    let mut bench = Bench::new(args)?;
    for line in &bench.missing {
        say(&format!("missing  {line}"));
    }
    let groups = group(cells(&bench.args));
    if bench.args.list {
        bench.list(&groups);
        return Ok(());
    }
    if !bench.tools.lighthaul.is_file() {
        return Err(io::Error::other(
            "lighthaul is missing; run cargo build --release",
        ));
    }
    let result = groups.iter().try_for_each(|cells| bench.measure(cells));
    // After a failure, publish the results so far.
    if result.is_ok() || !bench.rows.is_empty() {
        bench.publish()?;
    }
    result
}

/// Running bench.
struct Bench {
    args: Args,
    guard: Guard,
    tools: Tools,
    present: Vec<Box<dyn Peer>>,
    missing: Vec<String>,
    rows: Vec<Row>,
    /// Locations of the files, one line per kind.
    places: Vec<String>,
}

impl Bench {
    /// Determines which programs are available.
    fn new(mut args: Args) -> io::Result<Self> {
        if args.quick {
            args.runs = 1;
            args.limit = args.limit.min(15.0);
        }
        let guard = Guard::new()?;
        let work = guard.folders.memory.join("work");
        fs::create_dir_all(&work)?;
        peers::compile(&work);
        // A copy, so that a build meanwhile has no effect.
        let lighthaul = work.join("lighthaul");
        fs::copy(&args.lighthaul, &lighthaul).ok();
        let tools = Tools {
            lighthaul,
            programs: args.programs.clone(),
            work,
        };
        let (mut present, mut missing) = (Vec::new(), Vec::new());
        let wants =
            |name: &str| args.tool.is_empty() || args.tool.iter().any(|t| name.starts_with(t));
        for peer in peers::all().into_iter().filter(|peer| wants(peer.name())) {
            match peer.available(&tools) {
                Ok(()) => present.push(peer),
                Err(why) => missing.push(format!("{}: {why}", peer.name())),
            }
        }
        let (rows, places) = (Vec::new(), Vec::new());
        Ok(Self {
            args,
            guard,
            tools,
            present,
            missing,
            rows,
            places,
        })
    }

    /// Prints the planned measurements.
    fn list(&self, groups: &[Vec<Cell>]) {
        for cell in groups.iter().flatten() {
            let who = self.takes_part(cell).join(" ");
            let (path, data) = (cell.path.name(), cell.data.name());
            say(&format!(
                "{path:<9} loss {:<6} {data:<11} {who}",
                cell.loss.to_string()
            ));
        }
    }

    fn takes_part(&self, cell: &Cell) -> Vec<String> {
        let able = self.present.iter();
        let able = able.filter(|peer| peer.moves(cell.data) && cell.has(peer.name()));
        able.map(|peer| peer.name().to_owned()).collect()
    }

    /// Measures cells that share a lab.
    fn measure(&mut self, cells: &[Cell]) -> io::Result<()> {
        let mut file_sets = Vec::new();
        for cell in cells {
            let peers = self.takes_part(cell);
            if !peers.is_empty() {
                file_sets.extend(self.files(cell.data, peers)?);
            }
        }
        let (path, loss) = (cells[0].path, cells[0].loss);
        if file_sets.is_empty() {
            return Ok(());
        }
        say(&format!("path {}, loss {loss}", path.name()));
        let plan = Plan {
            path,
            loss,
            file_sets,
            runs: self.args.runs,
            limit_s: self.args.limit,
            seconds: self.args.seconds,
            tools: self.tools.clone(),
        };
        self.lab(&plan)?;
        // Remove the largest files, which few paths need.
        for files in plan
            .file_sets
            .iter()
            .filter(|files| files.data.bytes() >= Data::EightGibibytes.bytes())
        {
            fs::remove_file(&files.source).ok();
        }
        Ok(())
    }

    /// Creates the files of one kind. Returns `None` if there is no space.
    fn files(&mut self, data: Data, peers: Vec<String>) -> io::Result<Option<FileSet>> {
        let name = data.name();
        let Some(folder) = self.guard.folders.for_data(data) else {
            self.places.push(format!(
                "{name}: not measured, since there is no space for it twice"
            ));
            return Ok(None);
        };
        let in_memory = folder == self.guard.folders.memory;
        let kind = if in_memory {
            "in memory (tmpfs)"
        } else {
            "on a disk"
        };
        let base = folder.parent().unwrap_or(folder).display();
        let line = format!("{name}: files {kind}, {base}");
        let source = folders::make(data, folder)?;
        let files = FileSet {
            data,
            source,
            target: folder.join("target"),
            peers,
        };
        if data != Data::Memory && !self.places.contains(&line) {
            self.places.push(line);
        }
        Ok(Some(files))
    }

    /// Runs a lab and collects its rows.
    fn lab(&mut self, plan: &Plan) -> io::Result<()> {
        let file = plan.tools.work.join("plan.json");
        fs::write(&file, serde_json::to_string(plan)?)?;
        let mut command = Command::new(&plan.tools.lighthaul);
        command
            .args(["lab", "run"])
            .args(plan.path.flags(plan.loss))
            .arg("--");
        command
            .arg(std::env::current_exe()?)
            .args(["bench", "inside"])
            .arg(file);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // The lab runs while this end is open.
        let lifeline = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no pipe"))?;
        self.guard.keep(child);
        for line in BufReader::new(stdout).lines() {
            let row: Row = serde_json::from_str(&line?)?;
            say(&table::line(&row));
            self.rows.push(row);
        }
        drop(lifeline);
        self.guard.wait()
    }

    fn publish(&self) -> io::Result<()> {
        let report = Report {
            summaries: summarize(&self.rows),
            missing: self.missing.clone(),
            places: self.places.clone(),
            machine: machine(),
            runs: self.args.runs,
            limit_s: self.args.limit,
        };
        table::publish(&report, &self.args.out)?;
        match &self.args.keep {
            Some(folder) => figure::keep(&report.summaries, folder).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

/// Groups cells that share a lab.
fn group(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
    let mut groups: Vec<Vec<Cell>> = Vec::new();
    for cell in cells {
        match groups.last_mut() {
            Some(last) if (last[0].path, last[0].loss) == (cell.path, cell.loss) => last.push(cell),
            _ => groups.push(vec![cell]),
        }
    }
    groups
}

/// Describes this host: cores, processor, memory and kernel.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cores = cpu
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let model = cpu.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split_once(": "))
        .map_or("?", |(_, name)| name);
    let memory = read("/proc/meminfo");
    let memory = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<f64>().ok());
    let memory = memory.unwrap_or(0.0) / f64::from(1 << 20);
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel = kernel
        .split(['-', '\n'])
        .next()
        .unwrap_or_default()
        .to_owned();
    format!("{cores} cores ({model}), {memory:.0} GiB, Linux {kernel}")
}

/// Prints a line on standard error.
fn say(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}
