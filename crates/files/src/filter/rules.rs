//! Rules of a filter, in the order of the command line.
//!
//! The first rule that matches a path decides, and a path without a match is copied. Contents of an
//! excluded directory are not checked at all. Rules are also received from a peer, so their number
//! and their length have limits.

use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lighthaul_io::control::bounded;
use lighthaul_session::error::{Error, FileAction};
use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::filter::pattern::Pattern;
use crate::manifest::PATH_MAX;

/// Filter option of a command line; the order of filter options matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterOption {
    /// `--exclude PATTERN`
    Exclude(Vec<u8>),
    /// `--include PATTERN`
    Include(Vec<u8>),
    /// `--filter RULE`
    Filter(Vec<u8>),
    /// `--exclude-from FILE`; `-` is standard input.
    ExcludeFrom(PathBuf),
    /// `--include-from FILE`
    IncludeFrom(PathBuf),
}

/// Rules that select files. The first match decides, and files without a match are selected. The
/// rules are sent to the peer if the peer walks the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Lines", into = "Lines")]
pub struct Rules(Arc<List>);

/// Rules in order; clones of a filter share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct List {
    rules: Vec<Rule>,
    /// Octets of all patterns.
    octets: usize,
}

/// Rules in the encoding for the peer.
#[derive(Serialize, Deserialize)]
struct Lines(#[serde(deserialize_with = "bounded::list::<{ Rules::RULES_MAX }, _, _>")] Vec<Line>);

/// One rule: true if it includes the matching paths, its side, and its pattern.
#[derive(Serialize, Deserialize)]
struct Line(
    bool,
    Side,
    #[serde(deserialize_with = "bounded::list::<{ Rules::PATTERN_MAX }, _, _>")] Vec<u8>,
);

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    includes: bool,
    side: Side,
    text: Vec<u8>,
    pattern: Pattern,
}

/// Side that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// Rule of both sides: the sender lists or hides the path, and the receiver may delete it or protects it.
    Both,
    /// The sender only: `show` and `hide`.
    Sender,
    /// The receiver only: `risk` and `protect`.
    Receiver,
}

/// Decision of the rules about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The path is copied.
    Include,
    /// The given rule excludes the path and everything below it.
    Exclude(&'a Rule),
}

impl Rules {
    /// Maximum number of rules. Each is matched with each path, and includes up to a hundred times its encoded
    /// size in memory.
    pub const RULES_MAX: usize = 4096;
    /// Maximum number of octets of all patterns together. They take up to sixteen times as much when parsed.
    pub const OCTETS_MAX: usize = 64 << 10;
    /// Maximum number of octets of a pattern: no path is longer.
    pub const PATTERN_MAX: usize = PATH_MAX;

    /// Parses filter options, and the files that they name.
    pub fn parse(options: &[FilterOption]) -> Result<Self, Error> {
        let mut rules = Self::default();
        for option in options {
            match option {
                FilterOption::Exclude(text) => rules.add_pattern(text, false)?,
                FilterOption::Include(text) => rules.add_pattern(text, true)?,
                FilterOption::Filter(text) => rules.add_rule(text, 0)?,
                FilterOption::ExcludeFrom(file) => {
                    for_lines(file, |line| rules.add_pattern(line, false))?;
                }
                FilterOption::IncludeFrom(file) => {
                    for_lines(file, |line| rules.add_pattern(line, true))?;
                }
            }
        }
        Ok(rules)
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.rules.is_empty()
    }

    /// Decides about `path`, relative to the root of the transfer. Directories are checked before their
    /// contents, and the contents of an excluded directory are not checked.
    pub fn decide(&self, path: &[u8], folder: bool) -> Decision<'_> {
        self.find(path, folder, Side::Sender)
    }

    /// Decides about the deletion of `path` at the target: an excluded path is protected.
    pub fn decide_deletion(&self, path: &[u8], folder: bool) -> Decision<'_> {
        self.find(path, folder, Side::Receiver)
    }

    fn find(&self, path: &[u8], folder: bool, side: Side) -> Decision<'_> {
        let mut rules = self.0.rules.iter();
        let found = rules.find(|rule| {
            (rule.side == side || rule.side == Side::Both) && rule.pattern.matches(path, folder)
        });
        match found {
            Some(rule) if !rule.includes => Decision::Exclude(rule),
            _ => Decision::Include,
        }
    }

    /// Adds the pattern of `--exclude` or `--include`. As in rsync, a leading `+ ` or `- `
    /// overrides the option.
    fn add_pattern(&mut self, text: &[u8], includes: bool) -> Result<(), Error> {
        match text {
            b"!" => self.clear(),
            [b'!', ..] => {
                let why = "a single ! drops all earlier rules; write \"- !NAME\" for a name that begins with !";
                return Err(invalid(text, why));
            }
            [b'+', b' ', pattern @ ..] => self.push(true, Side::Both, pattern)?,
            [b'-', b' ', pattern @ ..] => self.push(false, Side::Both, pattern)?,
            pattern => self.push(includes, Side::Both, pattern)?,
        }
        Ok(())
    }

    /// Adds a rule of `--filter`, from the command line or from a file at `depth` of merged files.
    fn add_rule(&mut self, text: &[u8], depth: usize) -> Result<(), Error> {
        if matches!(text, b"!" | b"clear") {
            self.clear();
            return Ok(());
        }
        let at = text.iter().position(|octet| b" _".contains(octet));
        let (word, rest) = text.split_at(at.unwrap_or(text.len()));
        let rest = rest.get(1..).unwrap_or_default();
        match word {
            b"-" | b"exclude" => self.push(false, Side::Both, rest),
            b"+" | b"include" => self.push(true, Side::Both, rest),
            b"H" | b"hide" => self.push(false, Side::Sender, rest),
            b"S" | b"show" => self.push(true, Side::Sender, rest),
            b"P" | b"protect" => self.push(false, Side::Receiver, rest),
            b"R" | b"risk" => self.push(true, Side::Receiver, rest),
            b"." | b"merge" if depth == DEPTH_MAX => {
                Err(invalid(text, "merged files are nested too deeply"))
            }
            b"." | b"merge" => {
                let file = Path::new(std::ffi::OsStr::from_bytes(rest));
                for_lines(file, |line| self.add_rule(line, depth + 1))
            }
            _ => Err(invalid(
                text,
                "write a rule as \"- PATTERN\", \"+ PATTERN\", \". FILE\" or \"!\", or with H, S, P or R",
            )),
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    fn push(&mut self, includes: bool, side: Side, text: &[u8]) -> Result<(), Error> {
        if text.is_empty() {
            return Err(invalid(text, "a rule needs a pattern"));
        }
        if text.len() > Self::PATTERN_MAX {
            let start = &text[..PATTERN_SHOWN];
            let why = format!(
                "it is longer than {} octets, the longest path",
                Self::PATTERN_MAX
            );
            return Err(invalid(start, &why));
        }
        let list = Arc::make_mut(&mut self.0);
        list.octets += text.len();
        if list.octets > Self::OCTETS_MAX || list.rules.len() == Self::RULES_MAX {
            return Err(Fault::TooManyRules {
                rules: Self::RULES_MAX,
                kib: Self::OCTETS_MAX >> 10,
            }
            .into());
        }
        list.rules.push(Rule {
            includes,
            side,
            text: text.to_vec(),
            pattern: Pattern::new(text),
        });
        Ok(())
    }
}

impl TryFrom<Lines> for Rules {
    type Error = Error;

    fn try_from(lines: Lines) -> Result<Self, Error> {
        let mut rules = Self::default();
        for Line(includes, side, text) in lines.0 {
            rules.push(includes, side, &text)?;
        }
        Ok(rules)
    }
}

impl From<Rules> for Lines {
    fn from(rules: Rules) -> Self {
        let lines = rules.0.rules.iter();
        Self(
            lines
                .map(|rule| Line(rule.includes, rule.side, rule.text.clone()))
                .collect(),
        )
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match (self.side, self.includes) {
            (Side::Both, true) => '+',
            (Side::Both, false) => '-',
            (Side::Sender, true) => 'S',
            (Side::Sender, false) => 'H',
            (Side::Receiver, true) => 'R',
            (Side::Receiver, false) => 'P',
        };
        write!(f, "{sign} {}", String::from_utf8_lossy(&self.text))
    }
}

/// Calls `take` with each line of a file of rules, except comments and empty lines. `-` is standard
/// input.
fn for_lines(file: &Path, mut take: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let mut octets = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut octets).map(drop)
    } else {
        std::fs::read(file).map(|all| octets = all)
    };
    read.map_err(|error| Error::file(FileAction::Open, file, &error))?;
    for line in octets.split(|octet| *octet == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !matches!(line, [] | [b'#' | b';', ..]) {
            take(line)?;
        }
    }
    Ok(())
}

fn invalid(text: &[u8], why: &str) -> Error {
    Fault::Rule {
        rule: String::from_utf8_lossy(text).into_owned(),
        why: why.to_owned(),
    }
    .into()
}

/// Deepest nesting of merged files.
const DEPTH_MAX: usize = 8;
/// Octets of an overlong pattern that an error message shows.
const PATTERN_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> FilterOption {
        FilterOption::Filter(text.into())
    }

    fn left(rules: &Rules, path: &str, folder: bool) -> Option<String> {
        match rules.decide(path.as_bytes(), folder) {
            Decision::Include => None,
            Decision::Exclude(rule) => Some(rule.to_string()),
        }
    }

    #[test]
    fn first_matching_rule_applies() {
        let rules = Rules::parse(&[
            FilterOption::Include("*.rs".into()),
            FilterOption::Exclude("src/*".into()),
            FilterOption::Exclude("+ src".into()),
            filter("- *"),
        ])
        .unwrap();
        assert_eq!(left(&rules, "src/a.rs", false), None);
        assert_eq!(left(&rules, "src/a.c", false), Some("- src/*".into()));
        assert_eq!(left(&rules, "src", true), None);
        assert_eq!(left(&rules, "other", false), Some("- *".into()));
    }

    #[test]
    fn merged_files_of_rules_are_read() {
        let folder = std::env::temp_dir().join(format!("lighthaul-rules-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (plain, merged) = (folder.join("plain"), folder.join("merged"));
        std::fs::write(&plain, "# a comment\n; another\n\n*.o\r\n+ keep\n").unwrap();
        let text = format!("+ *.txt\n. {}\n", folder.join("inner").display());
        std::fs::write(&merged, text).unwrap();
        std::fs::write(folder.join("inner"), "- secret\n").unwrap();
        let rules = Rules::parse(&[
            FilterOption::ExcludeFrom(plain),
            filter(&format!(". {}", merged.display())),
        ]);
        let lines: Vec<_> = rules.unwrap().0.rules.iter().map(Rule::to_string).collect();
        assert_eq!(lines, ["- *.o", "+ keep", "+ *.txt", "- secret"]);
        let again = format!(". {}\n", merged.display());
        std::fs::write(&merged, &again).unwrap();
        let error = Rules::parse(&[filter(again.trim())]).unwrap_err();
        assert!(error.text().contains("nested too deeply"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn exclamation_mark_drops_earlier_rules() {
        let rules = Rules::parse(&[
            FilterOption::Exclude("a".into()),
            filter("!"),
            filter("- b"),
        ]);
        assert_eq!(rules, Rules::parse(&[filter("exclude b")]));
    }

    #[test]
    fn invalid_rules_are_rejected_with_a_message() {
        for text in [
            "",
            "- ",
            "foo",
            "Q x",
            "-s x",
            ": .rsync-filter",
            ". /no/such/file",
        ] {
            let error = Rules::parse(&[filter(text)]).unwrap_err();
            assert!(!error.text().is_empty(), "{text}");
        }
        assert!(Rules::parse(&[FilterOption::Exclude("!a".into())]).is_err());
    }

    #[test]
    fn encoded_rules_are_read_back_within_their_bounds() {
        let rules = Rules::parse(&[filter("- *.o"), filter("+ [a-z]/\u{e9}")]).unwrap();
        let octets = postcard::to_allocvec(&rules).unwrap();
        assert_eq!(postcard::from_bytes(&octets), Ok(rules));
        for lines in [
            vec![(true, Side::Both, b"x".to_vec()); Rules::RULES_MAX + 1],
            vec![(true, Side::Both, vec![b'x'; Rules::PATTERN_MAX + 1])],
            vec![
                (true, Side::Both, vec![b'x'; Rules::PATTERN_MAX]);
                Rules::OCTETS_MAX / Rules::PATTERN_MAX + 1
            ],
            vec![(true, Side::Both, Vec::new())],
        ] {
            let octets = postcard::to_allocvec(&lines).unwrap();
            assert!(postcard::from_bytes::<Rules>(&octets).is_err());
        }
        let long = vec![b'x'; Rules::PATTERN_MAX + 1];
        let error = Rules::parse(&[FilterOption::Exclude(long)]).unwrap_err();
        assert!(
            error
                .text()
                .ends_with("longer than 4096 octets, the longest path"),
            "{error}"
        );
    }
}
