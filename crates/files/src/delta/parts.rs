//! Results of a search, joined into few parts.

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestKind, RunningDigest};
use crate::object::Span;

/// Most bytes of a part that is in the basis. If its digest differs, all of it is sent.
pub const RUN_MAX: u64 = 4 << 20;
/// Most parts of one file.
pub const PARTS_MAX: usize = 1 << 17;

/// Part of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The basis has it at this offset. The digest is that of the source.
    Matched {
        /// Range in the source.
        span: Span,
        /// Offset in the basis.
        from: u64,
        /// Digest of the source's bytes.
        digest: Digest,
    },
    /// The basis does not have it.
    Missing(Span),
}

/// Part that is in the basis, and still grows.
#[derive(Debug)]
struct Run {
    span: Span,
    from: u64,
    digest: RunningDigest,
}

/// Parts that are being found, in order.
#[derive(Debug)]
pub(super) struct Parts {
    kind: DigestKind,
    /// Missing bytes before the run that were not reported yet.
    gap: Option<Span>,
    run: Option<Run>,
    /// Parts that were reported.
    count: usize,
    /// Parts that can be reported.
    ready: Vec<Part>,
}

impl Parts {
    pub(super) const fn new(kind: DigestKind) -> Self {
        Self {
            kind,
            gap: None,
            run: None,
            count: 0,
            ready: Vec::new(),
        }
    }

    /// Adds bytes that the basis has at `from`.
    pub(super) fn matched(&mut self, at: u64, from: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        let follows = |run: &Run| {
            run.span.1 == at
                && run.from + (run.span.1 - run.span.0) == from
                && at + len - run.span.0 <= RUN_MAX
        };
        if !self.run.as_ref().is_some_and(follows) {
            self.end_run();
            if self.gap.is_some_and(|gap| gap.1 != at) {
                self.end_gap();
            }
        }
        let run = self.run.get_or_insert_with(|| Run {
            span: (at, at),
            from,
            digest: RunningDigest::new(self.kind),
        });
        run.span.1 += len;
        run.digest.append(bytes);
    }

    /// Adds bytes that the basis does not have.
    pub(super) fn missing(&mut self, (from, till): Span) {
        if from >= till {
            return;
        }
        self.end_run();
        match &mut self.gap {
            Some(gap) if gap.1 == from => gap.1 = till,
            _ => {
                self.end_gap();
                self.gap = Some((from, till));
            }
        }
        // so that it is sent while the search goes on
        if self.gap.is_some_and(|gap| gap.1 - gap.0 >= RUN_MAX) {
            self.end_gap();
        }
    }

    /// Ends the current part, and returns all that were not reported yet.
    pub(super) fn finish(&mut self) -> Vec<Part> {
        self.end_run();
        self.end_gap();
        self.take()
    }

    /// Returns the parts that can be reported.
    pub(super) fn take(&mut self) -> Vec<Part> {
        self.count += self.ready.len();
        std::mem::take(&mut self.ready)
    }

    fn end_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        if run.span.1 - run.span.0 >= self.shortest() {
            self.end_gap();
            self.ready.push(Part::Matched {
                span: run.span,
                from: run.from,
                digest: run.digest.finish(),
            });
            return;
        }
        // too many parts cost more than the bytes between them
        match &mut self.gap {
            Some(gap) if gap.1 == run.span.0 => gap.1 = run.span.1,
            _ => {
                self.end_gap();
                self.gap = Some(run.span);
            }
        }
    }

    fn end_gap(&mut self) {
        self.ready.extend(self.gap.take().map(Part::Missing));
    }

    /// Returns the length of the shortest run that is worth a part: the more parts, the longer.
    const fn shortest(&self) -> u64 {
        let count = self.count + self.ready.len();
        if count < 50_000 {
            1
        } else if count < 70_000 {
            64 << 10
        } else if count < 90_000 {
            1 << 20
        } else {
            u64::MAX
        }
    }
}
