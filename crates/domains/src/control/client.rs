//! Questions of a program to a running service.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::message::{ANSWER_MAX, Answer, Question};
use super::problem::ControlError;

/// Asks the service at a socket, and waits for its answer.
pub fn ask(path: &Path, question: &Question) -> Result<Answer, ControlError> {
    let lost = |why: std::io::Error| ControlError::Lost {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let mut stream = UnixStream::connect(path).map_err(|why| ControlError::NotRunning {
        path: path.to_owned(),
        why: why.to_string(),
    })?;
    // a service that refuses the caller closes before it reads
    let written = stream.write_all(&question.encode());
    let mut line = Vec::new();
    let mut answer = BufReader::new(stream).take(ANSWER_MAX as u64);
    answer.read_until(b'\n', &mut line).map_err(lost)?;
    if line.is_empty() {
        written.map_err(lost)?;
        return Err(lost(std::io::ErrorKind::UnexpectedEof.into()));
    }
    match Answer::decode(&line) {
        Ok(Answer::Problem(problem)) => Err(ControlError::Problem(problem)),
        Ok(answer) => Ok(answer),
        Err(_) => Err(ControlError::Malformed(path.to_owned())),
    }
}
