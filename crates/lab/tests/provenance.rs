//! Tests that `figures/PROVENANCE` says where the numbers of each table come from.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lighthaul_lab::table::{EMULATION, Table};

#[test]
fn each_table_has_its_provenance() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let text = fs::read_to_string(dir.join("PROVENANCE")).unwrap();
    let mut lines = lines(&text);
    let mut faults = Vec::new();
    for file in tables(dir) {
        let table = Table::from_csv(&fs::read_to_string(&file).unwrap()).unwrap();
        let name = file.strip_prefix(dir).unwrap().with_extension("");
        let name = name.to_str().unwrap().to_owned();
        assert!(file.with_extension("toml").exists(), "{name} has no plan");
        assert!(file.with_extension("png").exists(), "{name} has no picture");
        for origin in ["simulated", "measured"] {
            let Some(digest) = digest(&table, origin == "measured") else {
                continue;
            };
            match lines.remove(&format!("{name} {origin}")) {
                None => faults.push(format!("{name} | {origin} | {digest}: no such line")),
                Some(fields) => {
                    if fields[0] != digest {
                        faults.push(format!("{name} | {origin} | {digest}: another digest"));
                    }
                    if !is_complete(origin, &fields) {
                        faults.push(format!("{name} | {origin}: {fields:?}"));
                    }
                }
            }
        }
    }
    faults.extend(lines.keys().map(|line| format!("{line}: no such numbers")));
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Returns the fields behind the name and the origin of each line.
fn lines(text: &str) -> BTreeMap<String, Vec<&str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    fields
        .map(|fields| (format!("{} {}", fields[0], fields[1]), fields[2..].to_vec()))
        .collect()
}

/// True if the fields behind the digest are a command and, of a measurement, a commit, a date and a machine.
fn is_complete(origin: &str, fields: &[&str]) -> bool {
    if origin == "simulated" {
        return fields.len() == 2 && !fields[1].is_empty();
    }
    let [_, command, commit, date, machine] = fields else {
        return false;
    };
    let is_commit = commit.len() >= 8 && commit.chars().all(|c| c.is_ascii_hexdigit());
    let date: Vec<usize> = date.split('-').map(str::len).collect();
    !command.is_empty() && is_commit && date == [4, 2, 2] && !machine.is_empty()
}

/// Returns the digest of the measured or of the other columns, or `None` if they have no number.
fn digest(table: &Table, is_measured: bool) -> Option<String> {
    let chosen: Vec<usize> = (1..table.columns.len())
        .filter(|nth| table.columns[*nth].ends_with(EMULATION) == is_measured)
        .collect();
    let known = |row: &Vec<Option<f64>>| chosen.iter().any(|nth| row[*nth].is_some());
    if !table.rows.iter().any(known) {
        return None;
    }
    let chosen: Vec<usize> = std::iter::once(0).chain(chosen).collect();
    let part = Table {
        columns: chosen
            .iter()
            .map(|nth| table.columns[*nth].clone())
            .collect(),
        rows: table
            .rows
            .iter()
            .map(|row| chosen.iter().map(|nth| row[*nth]).collect())
            .collect(),
    };
    let hash = blake3::hash(part.to_csv().as_bytes()).to_hex();
    Some(hash.as_str()[..16].to_owned())
}

/// Lists the tables in `dir` and its directories, sorted by name.
fn tables(dir: &Path) -> Vec<PathBuf> {
    let mut tables = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tables.extend(self::tables(&path));
        } else if path.extension().is_some_and(|extension| extension == "csv") {
            tables.push(path);
        }
    }
    tables.sort();
    tables
}
