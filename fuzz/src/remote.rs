//! First lines of another host after a login, which its shell and any program there may print.

use lighthaul_daemon::greeting::GREETING;
use lighthaul_remote::ssh::greeting::{Limit, read_line};
use lighthaul_remote::ssh::report::{REPORT, Report, TEXT_MAX};

/// Reads lines until one has a mark, again and again, and parses its words as a report. Octets after
/// a line are not read, no earlier line has a mark, and texts of a report are bounded.
pub fn greeting(octets: &[u8]) {
    let marks = [GREETING, REPORT];
    let mut rest = octets;
    loop {
        let begin = rest;
        let Ok(Some((mark, words))) = read_line(&mut rest, &marks, Limit(None)) else {
            break;
        };
        let read = &begin[..begin.len() - rest.len()];
        let read = read.strip_suffix(b"\n").expect("only whole lines are read");
        let mut lines = read.rsplit(|octet| *octet == b'\n');
        let has = |line: &[u8], mark: &str| String::from_utf8_lossy(line).contains(mark);
        assert!(lines.next().is_some_and(|line| has(line, mark)));
        assert!(lines.all(|line| marks.iter().all(|mark| !has(line, mark))));
        report(&words);
    }
    let text = String::from_utf8_lossy(octets);
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    report(&words);
}

/// Parses the words of a report.
fn report(words: &[String]) {
    let is_word = |word: &String| !word.is_empty() && !word.contains(char::is_whitespace);
    assert!(words.iter().all(is_word), "{words:?}");
    let texts = match Report::parse(words) {
        None | Some(Report::Silent | Report::Installed | Report::Copy | Report::Copied) => {
            Vec::new()
        }
        Some(Report::Missing(system, other)) => {
            assert!(other.as_ref().is_none_or(|other| !other.is_empty()));
            [system.kernel, system.machine]
                .into_iter()
                .chain(other)
                .collect()
        }
        Some(Report::Unwritten(why) | Report::Unusable(_, why)) => vec![why],
    };
    for text in texts {
        assert!(text.chars().count() <= TEXT_MAX, "{text}");
    }
}
