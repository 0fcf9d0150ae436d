//! Tests of the history: order, retention, two writers, and damaged files.

use std::fs;
use std::thread;

use super::*;

const ALL: Retention = Retention {
    age: Duration::from_hours(24 * 7),
    bytes_max: 1 << 30,
};

fn scratch(name: &str) -> PathBuf {
    let name = format!("lighthaul-history-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::remove_dir_all(&folder).ok();
    folder
}

fn at(time_s: f64) -> Rates {
    Rates {
        time_s,
        ..Rates::default()
    }
}

fn time(record: &Record) -> f64 {
    match record {
        Record::Rates(rates) => rates.time_s,
        Record::Path(sample) => sample.time_s,
    }
}

fn probed(time_s: f64, host: &str) -> PathSample {
    PathSample {
        time_s,
        host: host.to_owned(),
        ..PathSample::default()
    }
}

fn times(history: &mut History, from: f64) -> Vec<f64> {
    let mut times = Vec::new();
    let end: Option<()> = history
        .each(from, |record| {
            times.push(time(&record));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(end, None);
    times
}

#[test]
fn rates_are_read_back_in_their_order() {
    let folder = scratch("order");
    let path = folder.join("a/monitor.db");
    let mut history = History::open(&path).unwrap();
    for time in [1000.0, 1002.5, 1001.25] {
        history.append(&at(time), ALL).unwrap();
    }
    let mut other = History::existing(&path).unwrap();
    assert_eq!(times(&mut other, 0.0), [1000.0, 1001.25, 1002.5]);
    assert_eq!(times(&mut other, 1001.0), [1001.25, 1002.5]);
    let first = other.each(0.0, |record| ControlFlow::Break(time(&record)));
    assert_eq!(first.unwrap(), Some(1000.0));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn old_rows_are_dropped() {
    let folder = scratch("age");
    let path = folder.join("monitor.db");
    let mut history = History::open(&path).unwrap();
    let short = Retention {
        age: Duration::from_secs(10),
        ..ALL
    };
    for time in [100.0, 105.0, 112.0] {
        history.append(&at(time), short).unwrap();
    }
    assert_eq!(times(&mut history, 0.0), [105.0, 112.0]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn oldest_rows_of_a_large_file_are_dropped() {
    let folder = scratch("size");
    let path = folder.join("monitor.db");
    let mut history = History::open(&path).unwrap();
    let small = Retention {
        bytes_max: 100_000,
        ..ALL
    };
    for time in 0..500 {
        history.append(&at(f64::from(time)), small).unwrap();
    }
    let times = times(&mut history, 0.0);
    assert!(times.len() > 20 && times.len() < 400, "{}", times.len());
    assert_eq!(times.last(), Some(&499.0));
    history
        .connection
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    assert!(fs::metadata(&path).unwrap().len() <= 110_000);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn probes_are_kept_among_the_rates_and_as_long() {
    let folder = scratch("paths");
    let path = folder.join("monitor.db");
    let mut history = History::open(&path).unwrap();
    let short = Retention {
        age: Duration::from_secs(10),
        ..ALL
    };
    history.append_path(&probed(100.0, "old"), short).unwrap();
    history.append(&at(106.0), short).unwrap();
    history.append_path(&probed(105.0, "far"), short).unwrap();
    history.append(&at(112.0), short).unwrap();
    let mut found = Vec::new();
    let end: Option<()> = history
        .each(0.0, |record| {
            found.push(record);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(end, None);
    let rates = |time| Record::Rates(Box::new(at(time)));
    let expected = [
        Record::Path(probed(105.0, "far")),
        rates(106.0),
        rates(112.0),
    ];
    assert_eq!(found, expected);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn oldest_probes_of_a_large_file_are_dropped() {
    let folder = scratch("many-paths");
    let path = folder.join("monitor.db");
    let mut history = History::open(&path).unwrap();
    let small = Retention {
        bytes_max: 100_000,
        ..ALL
    };
    for time in 0..600 {
        let sample = probed(f64::from(time), &"h".repeat(200));
        history.append_path(&sample, small).unwrap();
    }
    let times = times(&mut history, 0.0);
    assert!(times.len() > 20 && times.len() < 500, "{}", times.len());
    assert_eq!(times.last(), Some(&599.0));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn file_without_probes_is_read_and_continued() {
    let folder = scratch("earlier");
    let path = folder.join("monitor.db");
    let mut history = History::open(&path).unwrap();
    history.append(&at(5.0), ALL).unwrap();
    let sql = "DROP TABLE paths";
    history.connection.execute_batch(sql).unwrap();
    let mut read = History::existing(&path).unwrap();
    assert_eq!(times(&mut read, 0.0), [5.0]);
    history.append_path(&probed(6.0, "far"), ALL).unwrap();
    assert_eq!(times(&mut read, 0.0), [5.0, 6.0]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn two_writers_lose_no_row() {
    let folder = scratch("writers");
    let path = folder.join("monitor.db");
    thread::scope(|scope| {
        for first in [0, 1000] {
            let path = &path;
            scope.spawn(move || {
                let mut history = History::open(path).unwrap();
                for time in first..first + 100 {
                    history.append(&at(f64::from(time)), ALL).unwrap();
                }
            });
        }
    });
    let mut history = History::existing(&path).unwrap();
    assert_eq!(times(&mut history, 0.0).len(), 200);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn damaged_newer_and_foreign_files_are_refused_and_not_changed() {
    let folder = scratch("refused");
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    fs::write(
        path("text"),
        "not a database at all, but long enough to look at".repeat(40),
    )
    .unwrap();
    let database = |name: &str, sql: &str| {
        let connection = Connection::open(path(name)).unwrap();
        connection.execute_batch(sql).unwrap();
    };
    database("foreign", "CREATE TABLE other (a)");
    drop(History::open(&path("newer")).unwrap());
    database("newer", "PRAGMA user_version = 2");
    for (name, words) in [
        ("text", "is damaged"),
        ("foreign", "of another program"),
        ("newer", "its format is 2"),
    ] {
        let before = fs::read(path(name)).unwrap();
        for opened in [History::open(&path(name)), History::existing(&path(name))] {
            let why = opened.unwrap_err().to_string();
            assert!(
                why.contains(words) && why.contains("--store"),
                "{name}: {why}"
            );
        }
        assert_eq!(fs::read(path(name)).unwrap(), before, "{name}");
    }
    let none = History::existing(&path("none")).unwrap_err();
    assert!(
        none.to_string().contains("no sample is stored yet"),
        "{none}"
    );
    assert!(!path("none").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn malformed_row_is_reported_as_damage() {
    let folder = scratch("row");
    let path = folder.join("monitor.db");
    let mut history = History::open(&path).unwrap();
    let sql = "INSERT INTO samples (time_ms, rates) VALUES (5, '{\"time_s\": 1}')";
    history.connection.execute_batch(sql).unwrap();
    let read = history.each(0.0, |_| ControlFlow::<()>::Continue(()));
    let why = read.unwrap_err().to_string();
    assert!(why.contains("is damaged"), "{why}");
    fs::remove_dir_all(folder).unwrap();
}
