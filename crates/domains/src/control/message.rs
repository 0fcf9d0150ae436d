//! Questions to a service and its answers.

use lighthaul_base::Malformed;
use serde::{Deserialize, Serialize};

use super::path_id::PathId;
use super::problem::Problem;
use super::view::{PathView, StatusView};

/// Question of a local program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// Asks for the domain, its links and its paths.
    Status,
    /// Asks for the only path whose ID begins with the given digits.
    Find(String),
    /// Requests a path. The answer comes when it is committed or refused.
    Path(PathRequest),
    /// Asks for the best path that could be reserved. Nothing is reserved.
    Preview(PathRequest),
    /// Releases a path that this domain requested.
    Release(PathId),
}

/// Request for a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRequest {
    /// ID that was never used.
    pub id: PathId,
    /// End point in this domain: a name, or `DOMAIN:PORT`.
    pub from: String,
    /// Other end point.
    pub to: String,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Highest usable rate in bits per second; if absent, the whole free rate.
    pub rate_max_bps: Option<u64>,
    /// Lowest usable rate in bits per second; if absent, any rate.
    pub rate_min_bps: Option<u64>,
    /// Earliest start, in nanoseconds since 1970.
    pub earliest: u64,
    /// Latest end, in nanoseconds since 1970.
    pub latest: u64,
    /// Domains to avoid.
    pub exclude_domains: Vec<u32>,
    /// Border points to avoid.
    pub exclude_links: Vec<u32>,
    /// True for two disjoint paths.
    pub protect: bool,
    /// True if this domain asks each domain of the path directly.
    pub tree: bool,
}

/// Answer of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// Domain, its links and its paths.
    Status(StatusView),
    /// Path that is committed, released or offered.
    Path(PathView),
    /// Reason for which the service has no answer.
    Problem(Problem),
}

#[derive(Serialize)]
struct Line<'a, T> {
    version: u32,
    body: &'a T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadLine<T> {
    version: u32,
    body: T,
}

impl Question {
    /// Returns the question as a line, with its line feed.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes the line of a question.
    pub fn decode(line: &[u8]) -> Result<Self, Malformed> {
        if line.len() > QUESTION_MAX {
            return Err(Malformed);
        }
        decode(line)
    }
}

impl Answer {
    /// Returns the answer as a line, with its line feed.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes the line of an answer.
    pub fn decode(line: &[u8]) -> Result<Self, Malformed> {
        if line.len() > ANSWER_MAX {
            return Err(Malformed);
        }
        decode(line)
    }
}

fn encode<T: Serialize>(body: &T) -> Vec<u8> {
    let version = VERSION;
    let mut line = serde_json::to_vec(&Line { version, body }).unwrap_or_default();
    line.push(b'\n');
    line
}

fn decode<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Malformed> {
    let read: ReadLine<T> = serde_json::from_slice(line).map_err(|_| Malformed)?;
    (read.version == VERSION)
        .then_some(read.body)
        .ok_or(Malformed)
}

/// Returns the version of a line that may not decode.
pub(super) fn version_of(line: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let read: Versioned = serde_json::from_slice(line).ok()?;
    Some(read.version)
}

/// Version of the protocol.
pub(super) const VERSION: u32 = 4;
/// Maximum length of the line of a question in bytes.
pub const QUESTION_MAX: usize = 64 << 10;
/// Maximum length of the line of an answer in bytes.
pub const ANSWER_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use lighthaul_stargate::CorrelationId;

    use super::*;

    fn request() -> PathRequest {
        PathRequest {
            id: PathId(CorrelationId(7)),
            from: "chicago".to_owned(),
            to: "64502:103".to_owned(),
            bytes: u64::MAX,
            rate_max_bps: Some(1),
            rate_min_bps: None,
            earliest: 0,
            latest: u64::MAX,
            exclude_domains: vec![64_501],
            exclude_links: vec![12, 13],
            protect: true,
            tree: true,
        }
    }

    #[test]
    fn questions_and_answers_round_trip_through_lines() {
        let id = PathId(CorrelationId(7));
        for question in [
            Question::Status,
            Question::Find("0c5e".to_owned()),
            Question::Path(request()),
            Question::Preview(request()),
            Question::Release(id),
        ] {
            let line = question.encode();
            assert_eq!(line.last(), Some(&b'\n'));
            assert_eq!(Question::decode(&line), Ok(question));
        }
        for answer in [
            Answer::Problem(Problem::UnknownPath(id.to_string())),
            Answer::Problem(Problem::Busy),
        ] {
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
    }

    #[test]
    fn other_versions_unknown_fields_and_long_lines_are_malformed() {
        let line = String::from_utf8(Question::Status.encode()).unwrap();
        let version = format!("\"version\":{VERSION}");
        let next = line.replace(&version, &format!("\"version\":{}", VERSION + 1));
        let more = line.replace(&version, &format!("{version},\"more\":1"));
        let long = format!("{}{line}", " ".repeat(QUESTION_MAX));
        for wrong in [next.as_str(), &more, &long, "", "[1]"] {
            assert_eq!(Question::decode(wrong.as_bytes()), Err(Malformed));
        }
    }
}
