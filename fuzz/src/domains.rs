//! Decoders of the control socket of a domain: questions and answers, end points, and IDs of paths.

use lighthaul_domains::control::{Answer, Endpoint, PathId, Question};
use lighthaul_stargate::IdPrefix;

/// Reads a question and an answer. What is read survives its line.
pub fn message(octets: &[u8]) {
    if let Ok(question) = Question::decode(octets) {
        assert_eq!(Question::decode(&question.encode()), Ok(question));
    }
    if let Ok(answer) = Answer::decode(octets) {
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }
}

/// Reads an end point. What is read survives its text.
pub fn endpoint(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    if let Ok(at) = text.parse::<Endpoint>() {
        assert_eq!(at.to_string().parse(), Ok(at));
    }
}

/// Reads the ID of a path, and first digits of one. What is read survives its text.
pub fn path_id(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    let prefix = IdPrefix::parse(&text);
    if let Ok(id) = text.parse::<PathId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(prefix.is_some_and(|prefix| prefix.begins(id.0)));
        assert!(
            id.digits()
                .bytes()
                .all(|one| text.to_ascii_lowercase().bytes().any(|two| one == two))
        );
    }
}
