//! Protection of frames in transit: TLS, or individual seals after the connection has left TLS.
//!
//! ```text
//! TLS: frame, frame, ..., marker frame | sealed or plain frames until the end
//! ```
//!
//! `FrameProtection` stands between the queues and TCP. Each direction leaves TLS on its own. The
//! marker is the last frame in TLS, so that the reader knows where the next key applies. The number
//! of a sealed frame is its nonce, and is never used again with the key.

use std::collections::VecDeque;
use std::io::{self, BufRead, IoSlice, Write};
use std::net::TcpStream;

use rustls::Connection;

use super::frame::{Assembly, Frame, HEADER, LEAVE};
use crate::crypto::seal::Key;
use crate::crypto::tls::Record;

/// Frames per vectored write to TCP.
const SLICES: usize = 16;

/// Protection of one connection. Each direction leaves TLS independently.
pub(super) struct FrameProtection {
    tls: Connection,
    record: Record,
    /// True once outgoing frames bypass TLS.
    sends_past_tls: bool,
    /// True once incoming frames bypass TLS.
    receives_past_tls: bool,
    /// Key that seals outgoing frames.
    seal: Option<Key>,
    /// Number of frames sealed so far.
    sealed: u64,
    /// Frames that bypass TLS.
    ready: VecDeque<Vec<u8>>,
    /// Number of octets of the first of these frames that TCP has taken.
    gone: usize,
}

impl FrameProtection {
    /// Creates a protection that starts with TLS. The TLS session buffers at most `limit` octets.
    pub(super) fn new(mut tls: Connection, limit: usize) -> Self {
        tls.set_buffer_limit(Some(limit));
        Self {
            tls,
            record: Record::default(),
            sends_past_tls: false,
            receives_past_tls: false,
            seal: None,
            sealed: 0,
            ready: VecDeque::new(),
            gone: 0,
        }
    }

    /// Reports whether octets wait for TCP.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.wants_write() || !self.ready.is_empty()
    }

    /// Writes some of the waiting octets to TCP.
    pub(super) fn write(&mut self, mut tcp: &TcpStream) -> io::Result<()> {
        if self.tls.wants_write() {
            return self.tls.write_tls(&mut tcp).map(drop);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut skipped = self.gone;
        for (slice, octets) in slices.iter_mut().zip(&self.ready) {
            *slice = IoSlice::new(&octets[std::mem::take(&mut skipped)..]);
        }
        self.gone += tcp.write_vectored(&slices)?;
        while let Some(first) = self.ready.front()
            && first.len() <= self.gone
        {
            self.gone -= first.len();
            self.ready.pop_front();
        }
        Ok(())
    }

    /// Accepts octets of `frame` from position `from` on. Returns their number.
    pub(super) fn take(&mut self, frame: &mut Vec<u8>, from: usize) -> io::Result<usize> {
        if !self.sends_past_tls {
            return self.tls.writer().write(&frame[from..]);
        }
        let (header, body) = frame.split_at_mut(HEADER);
        let tag = self
            .seal
            .as_ref()
            .map(|key| key.seal(self.sealed, header, body));
        self.sealed += 1;
        let len = frame.len();
        frame.extend(tag.into_iter().flatten());
        self.ready.push_back(std::mem::take(frame));
        Ok(len)
    }

    /// Sends the marker frame [`LEAVE`], then leaves TLS: `seal` protects later frames (plain if `None`).
    pub(super) fn leave(&mut self, seal: Option<Key>) -> io::Result<()> {
        let mut last = [0; HEADER];
        last[4..6].copy_from_slice(&LEAVE.to_be_bytes());
        self.tls.writer().write_all(&last)?;
        self.sends_past_tls = true;
        self.seal = seal;
        Ok(())
    }

    /// Sends TLS's close notification, unless outgoing frames have left TLS.
    pub(super) fn close(&mut self, mut tcp: &TcpStream) {
        if !self.sends_past_tls {
            self.tls.send_close_notify();
            self.tls.write_tls(&mut tcp).ok();
        }
    }

    /// Decodes the frames in `came` and passes them to `arrived`. Returns the number of octets
    /// consumed. Stops behind the peer's marker frame, because another key opens what follows.
    pub(super) fn understand(
        &mut self,
        came: &[u8],
        assembly: &mut Assembly,
        longest: usize,
        mut arrived: impl FnMut(u16, Frame),
    ) -> io::Result<usize> {
        let mut rest = came;
        while self.receives_past_tls && !rest.is_empty() {
            let (taken, frame) = assembly.take(rest, longest)?;
            rest = &rest[taken..];
            if let Some((number, frame)) = frame {
                arrived(number, frame);
            }
        }
        while !rest.is_empty() && !self.receives_past_tls {
            let (mut part, behind) = rest.split_at(self.record.wants().min(rest.len()));
            self.record.take(part);
            rest = behind;
            while !part.is_empty() {
                self.tls.read_tls(&mut part)?;
                self.decrypt(assembly, longest, &mut arrived)?;
            }
        }
        Ok(came.len() - rest.len())
    }

    fn decrypt(
        &mut self,
        assembly: &mut Assembly,
        longest: usize,
        arrived: &mut impl FnMut(u16, Frame),
    ) -> io::Result<()> {
        let state = self.tls.process_new_packets().map_err(io::Error::other)?;
        let mut plain = state.plaintext_bytes_to_read();
        let mut reader = self.tls.reader();
        while plain > 0 {
            let (taken, frame) = assembly.take(reader.fill_buf()?, longest)?;
            reader.consume(taken);
            plain -= taken;
            match frame {
                Some((LEAVE, _)) => self.receives_past_tls = true,
                Some((number, frame)) => arrived(number, frame),
                None => {}
            }
        }
        if state.peer_has_closed() {
            return Err(gone());
        }
        Ok(())
    }

    /// Reports whether the peer has left TLS.
    pub(super) const fn receives_past_tls(&self) -> bool {
        self.receives_past_tls
    }
}

pub(super) fn gone() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the peer closed the connection",
    )
}
