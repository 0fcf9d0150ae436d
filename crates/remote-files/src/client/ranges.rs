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
/// Bytes requested first for a range to the end of its file, while the file's size is unknown.
const FIRST_BYTES: u64 = 8 * PIECE_MAX;

/// Range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Path of the file.
    pub path: Vec<u8>,
    /// First byte.
    pub offset: u64,
    /// Number of bytes, or [`ByteRange::TO_END`].
    pub len: u64,
}

impl ByteRange {
    /// Length of a range that extends to the end of its file.
    pub const TO_END: u64 = u64::MAX;
}

/// Piece of a range that was requested.
struct Piece {
    /// Index of the range.
    range: usize,
    file: Arc<RemoteFile>,
    offset: u64,
    len: u32,
    answer: Arc<Answer>,
    /// True if the range continues after this piece, to the end of the file.
    continues: bool,
}

/// Part of a range that is not requested yet.
struct Rest {
    range: usize,
    file: Arc<RemoteFile>,
    offset: u64,
}

/// Passes the index and the bytes of each range to `take`, as soon as they are complete.
pub(super) fn cat(
    files: &Links,
    wanted: &[ByteRange],
    take: &mut dyn FnMut(usize, Result<Vec<u8>, Failure>),
) {
    let mut cat = Cat {
        files,
        found: wanted.iter().map(|_| Ok(Vec::new())).collect(),
        ended: vec![false; wanted.len()],
        awaited: vec![0; wanted.len()],
        rests: VecDeque::new(),
        pieces: VecDeque::new(),
        bytes: 0,
        connections: 1,
        done: take,
    };
    // one file after the other, so that few are open
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|range| &wanted[*range].path);
    for same in order.chunk_by(|one, two| wanted[*one].path == wanted[*two].path) {
        let file = Arc::new(RemoteFile::new(&wanted[same[0]].path));
        for range in same {
            let ByteRange { offset, len, .. } = wanted[*range];
            let to_end = len == ByteRange::TO_END;
            let len = if to_end { FIRST_BYTES } else { len };
            cat.request(&file, *range, (offset, offset.saturating_add(len)), to_end);
        }
        file.close();
    }
    while cat.request_rest() || cat.take() {}
}

struct Cat<'a> {
    files: &'a Links,
    found: Vec<Result<Vec<u8>, Failure>>,
    /// True for a range that exceeds the size of its file, once known.
    ended: Vec<bool>,
    /// Number of pieces and rests of each range that have not arrived yet.
    awaited: Vec<usize>,
    rests: VecDeque<Rest>,
    /// Requested pieces, in the order of their requests.
    pieces: VecDeque<Piece>,
    bytes: u64,
    /// Connections of the session at the last request.
    connections: usize,
    done: &'a mut dyn FnMut(usize, Result<Vec<u8>, Failure>),
}

impl Cat<'_> {
    /// Requests the bytes of a range between two offsets. The range may continue after them.
    fn request(
        &mut self,
        file: &Arc<RemoteFile>,
        range: usize,
        (mut offset, end): (u64, u64),
        continues: bool,
    ) {
        // the range is not complete while pieces of it are requested
        self.awaited[range] += 1;
        while offset < end && self.found[range].is_ok() {
            let len = (end - offset).min(PIECE_MAX);
            while self.bytes + len > self.window() || self.pieces.len() >= PIECES_MAX {
                self.take();
            }
            if self.ended[range] {
                break;
            }
            let read = |link: &Link| Ok((link.count(), file.read(link, offset, len as u32)));
            let (connections, answer) = match self.files.repeat(read) {
                Ok(requested) => requested,
                Err(failure) => {
                    self.found[range] = Err(failure);
                    break;
                }
            };
            self.connections = connections;
            self.bytes += len;
            self.awaited[range] += 1;
            self.pieces.push_back(Piece {
                range,
                file: Arc::clone(file),
                offset,
                len: len as u32,
                answer,
                continues: continues && offset + len == end,
            });
            offset += len;
        }
        self.release(range);
    }

    /// Requests the rest of a range, up to the size of its file. Returns false if there is none.
    fn request_rest(&mut self) -> bool {
        let Some(Rest {
            range,
            file,
            offset,
        }) = self.rests.pop_front()
        else {
            return false;
        };
        match file.version() {
            Ok(version) => self.request(&file, range, (offset, version.size), false),
            Err(failure) => self.found[range] = Err(failure),
        }
        file.close();
        self.release(range);
        true
    }

    /// Counts that a piece or rest of a range is no longer awaited, and passes on the range if it was the last one.
    fn release(&mut self, range: usize) {
        self.awaited[range] -= 1;
        if self.awaited[range] == 0 {
            let found = std::mem::replace(&mut self.found[range], Ok(Vec::new()));
            (self.done)(range, found);
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
        if piece.continues && !self.ended[piece.range] && self.found[piece.range].is_ok() {
            self.awaited[piece.range] += 1;
            self.rests.push_back(Rest {
                range: piece.range,
                offset: piece.offset + u64::from(piece.len),
                file: piece.file,
            });
        }
        self.release(piece.range);
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
