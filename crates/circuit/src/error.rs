//! What goes wrong with circuits, by whose fault it is.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// Why something was not done, in one sentence.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be.
    #[error("{0}")]
    Misuse(String),
    /// The request has to wait until another circuit is gone.
    #[error("{0}")]
    Busy(String),
    /// An interface is already shaped by somebody else.
    #[error(
        "{interface} is shaped by {qdisc}, which is not ours and stays: remove it with `tc qdisc del dev {interface} root` \
         if nobody needs it, or give circuits another interface"
    )]
    Foreign {
        /// The interface.
        interface: String,
        /// What shapes it.
        qdisc: String,
    },
    /// The kernel refused.
    #[error("cannot {what}: {source}{hint}", hint = hint(*source))]
    Kernel {
        /// What was to be done, to what.
        what: String,
        /// Its reason.
        source: Errno,
    },
    /// A program failed.
    #[error("{program} failed: {why}")]
    Program {
        /// The program.
        program: String,
        /// What it says, or what is wrong with what it says.
        why: String,
    },
    /// A program did not answer in time.
    #[error("{program} did not answer within {} s and was killed{tail}", limit.as_secs_f64())]
    Hung {
        /// The program.
        program: String,
        /// How long it had.
        limit: Duration,
        /// What it said last.
        tail: String,
    },
    /// A device said no.
    #[error("the device refused: {0}")]
    Device(String),
}

/// What goes wrong here comes back as this.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What `map_err` takes to say what the kernel refused.
    pub(crate) fn kernel(what: impl Into<String>) -> impl FnOnce(Errno) -> Self {
        let what = what.into();
        |source| Self::Kernel { what, source }
    }

    /// The same for what the standard library asked the kernel for.
    pub(crate) fn world(what: &str) -> impl FnOnce(io::Error) -> Self {
        move |why| {
            let source = Errno::from_io_error(&why).unwrap_or(Errno::IO);
            Self::kernel(what)(source)
        }
    }
}

/// What to do about the commonest reasons.
const fn hint(source: Errno) -> &'static str {
    match source {
        Errno::PERM | Errno::ACCESS => "; it takes root or CAP_NET_ADMIN in this namespace",
        Errno::NOENT => "; it takes a kernel with sch_htb and cls_bpf",
        _ => "",
    }
}
