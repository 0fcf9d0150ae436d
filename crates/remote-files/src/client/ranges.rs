//! Many ranges of many files at once.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::client::answer::Answer;
use crate::client::link::Link;
use crate::client::links::Links;
use crate::client::remote_file::RemoteFile;
use crate::failure::{Failure, FailureKind};

/// Longest range of one request, so that long ranges use all connections.
pub(super) const PIECE_MAX: u64 = 128 << 10;
/// Maximum number of bytes that are requested and have not arrived, of all connections and of each. A new session has
/// one connection first, which should not get what further ones carry sooner.
const WINDOWS: [u64; 2] = [64 << 20, 6 << 20];
/// Maximum number of pieces that are requested and have not arrived.
const PIECES_MAX: usize = 4096;

/// Range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Path of the file.
    pub path: Vec<u8>,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Piece of a range that was requested.
struct Piece {
    /// Index of the range.
    range: usize,
    file: Arc<RemoteFile>,
    offset: u64,
    len: u32,
    answer: Arc<Answer>,
}

/// Returns the bytes of each range.
pub(super) fn cat(files: &Links, wanted: &[ByteRange]) -> Vec<Result<Vec<u8>, Failure>> {
    let mut cat = Cat {
        files,
        found: wanted.iter().map(|_| Ok(Vec::new())).collect(),
        ended: vec![false; wanted.len()],
        pieces: VecDeque::new(),
        bytes: 0,
        connections: 1,
    };
    // one file after the other, so that few are open
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|range| &wanted[*range].path);
    for same in order.chunk_by(|one, two| wanted[*one].path == wanted[*two].path) {
        let file = Arc::new(RemoteFile::new(&wanted[same[0]].path));
        for range in same {
            cat.request(&file, *range, &wanted[*range]);
        }
        file.close();
    }
    while cat.take() {}
    cat.found
}

struct Cat<'a> {
    files: &'a Links,
    found: Vec<Result<Vec<u8>, Failure>>,
    /// True for a range that exceeds the size of its file, once known.
    ended: Vec<bool>,
    /// Requested pieces, in the order of their requests.
    pieces: VecDeque<Piece>,
    bytes: u64,
    /// Connections of the session at the last request.
    connections: usize,
}

impl Cat<'_> {
    fn request(&mut self, file: &Arc<RemoteFile>, range: usize, wanted: &ByteRange) {
        let end = wanted.offset.saturating_add(wanted.len);
        let mut offset = wanted.offset;
        while offset < end && self.found[range].is_ok() {
            let len = (end - offset).min(PIECE_MAX);
            while self.bytes + len > self.window() || self.pieces.len() >= PIECES_MAX {
                self.take();
            }
            if self.ended[range] {
                return;
            }
            let read = |link: &Link| Ok((link.count(), file.read(link, offset, len as u32)));
            let (connections, answer) = match self.files.repeat(read) {
                Ok(requested) => requested,
                Err(failure) => {
                    self.found[range] = Err(failure);
                    return;
                }
            };
            self.connections = connections;
            self.bytes += len;
            self.pieces.push_back(Piece {
                range,
                file: Arc::clone(file),
                offset,
                len: len as u32,
                answer,
            });
            offset += len;
        }
    }

    /// Returns the most bytes that may be requested and not have arrived.
    fn window(&self) -> u64 {
        let [all, each] = WINDOWS;
        all.min(each * self.connections as u64)
    }

    /// Waits for the first piece. Returns false if there is none.
    fn take(&mut self) -> bool {
        let Some(piece) = self.pieces.pop_front() else {
            return false;
        };
        self.bytes -= u64::from(piece.len);
        let mut bytes = arrived(&piece.file, &piece.answer);
        if is_lost(&bytes) {
            self.request_again();
        }
        if is_lost(&bytes) || is_refused(&bytes) {
            bytes = self.files.repeat(|link| {
                loop {
                    let answer = again(link, &piece);
                    let bytes = arrived(&piece.file, &answer);
                    if !is_refused(&bytes) || !piece.file.is_open(link) {
                        return bytes;
                    }
                }
            });
        }
        let is_short = |bytes: &Vec<u8>| bytes.len() < piece.len as usize;
        self.ended[piece.range] |= bytes.as_ref().is_ok_and(is_short);
        match (&mut self.found[piece.range], bytes) {
            (Ok(found), Ok(bytes)) if found.is_empty() => *found = bytes,
            (Ok(found), Ok(bytes)) => found.extend(bytes),
            (found, Err(failure)) => *found = Err(failure),
            (Err(_), Ok(_)) => {}
        }
        true
    }

    /// Requests all lost pieces again.
    fn request_again(&mut self) {
        for piece in &mut self.pieces {
            let is_lost = piece.answer.has_ended() && is_lost(&piece.answer.version());
            if is_lost && let Ok(answer) = self.files.repeat(|link| Ok(again(link, piece))) {
                piece.answer = answer;
            }
        }
    }
}

fn again(link: &Link, piece: &Piece) -> Arc<Answer> {
    piece.file.read(link, piece.offset, piece.len)
}

/// Waits for the bytes of an answer, of one version of the file.
fn arrived(file: &RemoteFile, answer: &Answer) -> Result<Vec<u8>, Failure> {
    let bytes = std::mem::take(&mut answer.wait()?.data);
    file.version()?;
    Ok(bytes)
}

fn is_refused<T>(result: &Result<T, Failure>) -> bool {
    let failure = result.as_ref().err();
    failure.is_some_and(|failure| failure.kind == FailureKind::Busy)
}

fn is_lost<T>(result: &Result<T, Failure>) -> bool {
    let failure = result.as_ref().err();
    failure.is_some_and(|failure| failure.kind == FailureKind::Lost)
}
