//! Faults of message streams and streams of objects.

use std::io;
use std::path::PathBuf;

use lighthaul_base::Rate;
use lighthaul_session::error::{Code, Coded};

/// Fault of a stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A malformed code of the forward error correction.
    #[error("{code}: {why}")]
    FecCode {
        /// Text of the code.
        code: String,
        /// Fault of the text.
        why: String,
    },
    /// The rate is zero.
    #[error("the rate is zero; give a rate above zero")]
    ZeroRate,
    /// Parameters that do not go together.
    #[error("invalid parameters of the stream: {0}")]
    Parameters(String),
    /// Objects that need too long payloads.
    #[error("a payload of {objects} objects and {bytes} bytes exceeds its limit; allow less delay")]
    PayloadPlan {
        /// Objects of a payload.
        objects: u32,
        /// Bytes of a payload.
        bytes: u64,
    },
    /// The path is too slow.
    #[error(
        "the objects need {needed} on the wire to arrive in time, and the path has {most}; allow more delay or send less"
    )]
    TooSlow {
        /// Necessary rate.
        needed: Rate,
        /// Rate of the path.
        most: Rate,
    },
    /// The peer announced a payload that exceeds the limits.
    #[error(
        "the peer announced a payload of {bytes} bytes and {objects} objects, which exceeds the limit"
    )]
    PeerPayload {
        /// Bytes of the payload.
        bytes: u64,
        /// Objects of the payload.
        objects: usize,
    },
    /// A frame that exceeds the limit.
    #[error("a frame of {len} bytes or more exceeds the limit of {max} bytes here")]
    FrameTooLong {
        /// Length in bytes.
        len: usize,
        /// Longest frame in bytes.
        max: usize,
    },
    /// A pipe without a reader.
    #[error("cannot open the pipe {}: no process reads it; start its reader first", .0.display())]
    NoReader(PathBuf),
    /// The input cannot be read.
    #[error("cannot read the stream: {0}")]
    Read(io::Error),
    /// The output cannot be written.
    #[error("cannot write the stream: {0}")]
    Write(io::Error),
    /// The reader of the output is gone.
    #[error("cannot write the stream: the process that reads it has ended")]
    ReaderGone,
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::FecCode { .. }
            | Self::ZeroRate
            | Self::Parameters(_)
            | Self::PayloadPlan { .. }
            | Self::FrameTooLong { .. } => Code::Usage,
            Self::TooSlow { .. } => Code::Refused,
            Self::PeerPayload { .. } => Code::Protocol,
            Self::NoReader(_) => Code::Open,
            Self::Read(_) | Self::Write(_) | Self::ReaderGone => Code::Io,
        }
    }
}
