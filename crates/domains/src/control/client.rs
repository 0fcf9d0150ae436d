//! Questions of a program to a running service.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::message::{ANSWER_MAX, Answer, Question, VERSION, version_of};
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
        Err(_) => Err(match version_of(&line) {
            Some(theirs) if theirs != VERSION => ControlError::Version {
                path: path.to_owned(),
                theirs,
                ours: VERSION,
            },
            Some(_) | None => ControlError::Malformed(path.to_owned()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    #[test]
    fn service_of_another_version_is_reported_with_both_versions() {
        let name = format!("control-version-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let service = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = Vec::new();
            BufReader::new(stream.try_clone().unwrap())
                .read_until(b'\n', &mut question)
                .unwrap();
            stream
                .write_all(b"{\"version\":1,\"body\":{\"status\":{\"domain\":7}}}\n")
                .unwrap();
        });
        let why = ask(&path, &Question::Status).unwrap_err().to_string();
        service.join().unwrap();
        std::fs::remove_file(&path).unwrap();
        for part in ["speaks version 1", "version 4", "restart the service"] {
            assert!(why.contains(part), "{why}");
        }
    }
}
