//! Faults of labs.

use std::io;

use lighthaul_session::error::{Code, Coded};

/// Fault of a lab or of its figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabFault {
    /// Figures that cannot be drawn.
    #[error("{0}")]
    Figures(String),
    /// A program that cannot be started.
    #[error("cannot start {program}: {error}")]
    Program {
        /// Name of the program.
        program: String,
        /// Error of the start.
        error: io::Error,
    },
}

impl Coded for LabFault {
    fn code(&self) -> Code {
        match self {
            Self::Figures(_) => Code::Io,
            Self::Program { .. } => Code::Open,
        }
    }
}
