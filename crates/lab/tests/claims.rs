//! Tests that numbers in `figures/README.md` are those of the accepted tables.
//!
//! A comment before a table or a paragraph names its sources:
//!
//! ```text
//! <!-- checked: rbudp-rate
//! each: fast_model fast_simulation         the numbers of each row, after its first cell
//! row 10 Mb/s: fast_model@10 _             the numbers of one row; _ is a number of a paper
//! says: 876 = fast_simulation@900          a number of the paragraph
//! -->
//! ```
//!
//! A term is a column at a key; `@` alone is the key of the row. It can also be `min`, `max` or `mean` of a column from
//! a key on, as in `mean(reno_1@10)`. Terms can be joined by `+`, `-`, `*` and `/`, from left to right.

use std::fs;
use std::path::Path;

use lighthaul_lab::table::{EMULATION, MODEL, SIMULATION, Table};

#[test]
fn numbers_of_the_readme_match_the_tables() {
    let dir = Path::new(FIGURES);
    let text = fs::read_to_string(dir.join("README.md")).unwrap();
    let blocks: Vec<&str> = text.split("\n\n").collect();
    let (mut faults, mut checked) = (Vec::new(), 0);
    for (nth, block) in blocks.iter().enumerate() {
        // A comment `not checked:` has the reason.
        if block.starts_with('|') && !blocks[nth - 1].contains("checked:") {
            faults.push(format!("a table without a comment on its sources: {block}"));
        }
        let Some(comment) = block.strip_prefix("<!-- checked:") else {
            continue;
        };
        let comment = comment.trim().trim_end_matches("-->");
        let (source, rules) = comment.split_once('\n').unwrap();
        let csv = fs::read_to_string(dir.join(format!("{}.csv", source.trim()))).unwrap();
        let table = Table::from_csv(&csv).unwrap();
        for rule in rules.lines().filter(|rule| !rule.trim().is_empty()) {
            let block = blocks[nth..]
                .iter()
                .find(|block| !block.starts_with("<!--"));
            match check(&table, rule, block.unwrap()) {
                Ok(count) => checked += count,
                Err(why) => faults.push(format!("{source}: {rule}: {why}")),
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(checked >= 300, "only {checked} numbers are checked");
}

/// Checks the numbers of one rule. Returns their count.
fn check(table: &Table, rule: &str, block: &str) -> Result<usize, String> {
    let (kind, terms) = rule.rsplit_once(": ").ok_or("a rule needs a colon")?;
    if kind == "says" {
        let (shown, term) = terms.split_once(" = ").ok_or("needs an equals sign")?;
        if !numbers(block).contains(&shown.to_owned()) {
            return Err(format!("the paragraph does not say {shown}"));
        }
        return compare(table, shown, term, None).map(|()| 1);
    }
    let label = kind.strip_prefix("row ");
    let rows = block.lines().skip(2).filter_map(|line| {
        let (first, rest) = line.trim_matches('|').split_once('|')?;
        let first = first.trim();
        // A label may also have the second cell.
        let second = rest.split('|').next()?.trim();
        let is_labeled = |label| label == first || label == format!("{first}, {second}");
        label.is_none_or(is_labeled).then_some((first, rest))
    });
    let terms: Vec<&str> = terms.split_whitespace().collect();
    let mut count = 0;
    for (first, rest) in rows {
        let shown = numbers(rest);
        if shown.len() != terms.len() {
            return Err(format!("{} terms for {shown:?}", terms.len()));
        }
        for (shown, term) in shown.iter().zip(&terms).filter(|(_, term)| **term != "_") {
            compare(table, shown, term, key(first))?;
            count += 1;
        }
    }
    if count == 0 {
        return Err("no such row".into());
    }
    Ok(count)
}

/// Returns a number of digits as an exponent.
fn exponent(digits: usize) -> i32 {
    i32::try_from(digits).unwrap_or(i32::MAX)
}

/// Fails unless `shown` is the value of `term`, rounded.
fn compare(table: &Table, shown: &str, term: &str, row: Option<f64>) -> Result<(), String> {
    let value = value(table, term, row).ok_or_else(|| format!("{term}: no such number"))?;
    let digits = shown.replace(',', "");
    let number: f64 = digits.parse().map_err(|_| shown.to_owned())?;
    let unit = if let Some((_, decimals)) = digits.split_once('.') {
        0.1_f64.powi(exponent(decimals.len()))
    } else if number >= 10_000.0 {
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        10_f64.powi(exponent(zeros))
    } else {
        1.0
    };
    // A table has two decimals.
    if (number - value).abs() <= unit / 2.0 + 0.005 {
        Ok(())
    } else {
        Err(format!("{term} is {value}, not {shown}"))
    }
}

fn value(table: &Table, term: &str, row: Option<f64>) -> Option<f64> {
    let mut result = None;
    let mut operator = '+';
    let mut rest = term;
    while !rest.is_empty() {
        let end = rest.find(['+', '-', '*', '/']).unwrap_or(rest.len());
        let next = atom(table, &rest[..end], row)?;
        result = Some(match (result, operator) {
            (None, _) => next,
            (Some(sum), '+') => sum + next,
            (Some(sum), '-') => sum - next,
            (Some(sum), '*') => sum * next,
            (Some(sum), _) => sum / next,
        });
        operator = rest[end..].chars().next().unwrap_or('+');
        rest = rest.get(end + 1..).unwrap_or("");
    }
    result
}

fn atom(table: &Table, atom: &str, row: Option<f64>) -> Option<f64> {
    if atom == "@" {
        return row;
    }
    if let Ok(number) = atom.parse() {
        return Some(number);
    }
    let (function, reference) = match atom.split_once('(') {
        Some((function, reference)) => (Some(function), reference.strip_suffix(')')?),
        None => (None, atom),
    };
    let (name, from) = match reference.split_once('@') {
        Some((name, key)) => (name, Some(key.parse().ok()?)),
        None => (reference, None),
    };
    let tails = ["", SIMULATION, EMULATION, MODEL];
    let columns = tails.map(|tail| format!("{name}{tail}"));
    let column = columns
        .iter()
        .find(|column| table.columns.contains(column))?;
    let Some(function) = function else {
        return table.number(from.or(row)?, column);
    };
    let points = table.points(column).into_iter();
    let points = points.filter(|point| from.is_none_or(|from: f64| point.0 >= from));
    let values: Vec<f64> = points.map(|point| point.1).collect();
    match function {
        "min" => values.into_iter().reduce(f64::min),
        "max" => values.into_iter().reduce(f64::max),
        "mean" => Some(values.iter().sum::<f64>() / values.len() as f64),
        _ => None,
    }
}

/// Returns the numbers of a text, as they are written.
fn numbers(text: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for c in text.chars().chain([' ']) {
        if c.is_ascii_digit() || (matches!(c, '.' | ',') && !word.is_empty()) {
            if word.is_empty() && (before.is_ascii_alphabetic() || before == '_') {
                // A digit within a name.
                continue;
            }
            word.push(c);
        } else {
            if !word.is_empty() {
                numbers.push(word.trim_end_matches(['.', ',']).to_owned());
            }
            word.clear();
            before = c;
        }
    }
    numbers
}

/// Returns the key of a row: the first number of its first cell.
fn key(cell: &str) -> Option<f64> {
    let number: f64 = numbers(cell).first()?.replace(',', "").parse().ok()?;
    Some(if cell.ends_with(" GB") {
        number * 1000.0
    } else {
        number
    })
}

const FIGURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures");

#[test]
fn false_number_is_found() {
    let table = Table::from_csv("x,a_simulation,b_emulation\n1,5.26,7\n20,8,9\n").unwrap();
    let block = "| x | a | b |\n|---|---|---|\n| 1 MB | 5.3, 1 s | 7 |\n| 20 MB | 8, 1 s | 9 |";
    assert_eq!(check(&table, "each: a _ b", block), Ok(4));
    assert_eq!(check(&table, "row 20 MB: a@20 _ max(b)", block), Ok(2));
    assert!(check(&table, "each: a _ a", block).is_err());
    assert!(check(&table, "each: a b", block).is_err());
    assert!(check(&table, "row 3 MB: a _ b", block).is_err());
    let text = "It has 5.3 Mb/s, in all 1,600 %.";
    assert_eq!(check(&table, "says: 5.3 = a@1", text), Ok(1));
    assert_eq!(check(&table, "says: 1,600 = b@20+b@1*100", text), Ok(1));
    assert!(check(&table, "says: 5.4 = a@1", text).is_err());
    assert!(check(&table, "says: 5.3 = a@20", text).is_err());
}
