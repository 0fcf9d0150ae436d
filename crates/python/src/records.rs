//! Results as dictionaries, which the package converts to its types.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use lighthaul::{CopyProgress, FileInfo, FileKind, Plan, Summary};
use pyo3::prelude::*;

/// Item of a file system.
#[derive(Debug, IntoPyObject)]
pub(crate) struct ItemRecord {
    path: OsString,
    kind: &'static str,
    size: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime_ns: i128,
    target: Option<OsString>,
}

impl From<FileInfo> for ItemRecord {
    fn from(info: FileInfo) -> Self {
        let (kind, target) = match info.kind {
            FileKind::File => ("file", None),
            FileKind::Folder => ("directory", None),
            FileKind::Link(target) => ("link", Some(OsString::from_vec(target))),
            FileKind::Other => ("other", None),
        };
        Self {
            path: OsString::from_vec(info.path),
            kind,
            size: info.size,
            mode: info.mode,
            uid: info.user,
            gid: info.group,
            mtime_ns: i128::from(info.seconds) * 1_000_000_000 + i128::from(info.nanos),
            target,
        }
    }
}

/// Progress of a copy.
#[derive(Debug, IntoPyObject)]
pub(crate) struct ProgressRecord {
    done: u64,
    total: u64,
    entries: u64,
    packets: u64,
    resent: u64,
}

impl From<CopyProgress> for ProgressRecord {
    fn from(progress: CopyProgress) -> Self {
        Self {
            done: progress.done,
            total: progress.total,
            entries: progress.published,
            packets: progress.sent,
            resent: progress.resent,
        }
    }
}

/// Result of a copy. A failure has a path, an exit status and a reason.
#[derive(Debug, IntoPyObject)]
pub(crate) struct SummaryRecord {
    entries: u64,
    bytes: u64,
    unchanged: u64,
    elapsed: f64,
    progress: ProgressRecord,
    failures: Vec<(OsString, u8, String)>,
}

impl From<Summary> for SummaryRecord {
    fn from(summary: Summary) -> Self {
        let failures = summary.failures.into_iter();
        Self {
            entries: summary.entries,
            bytes: summary.bytes,
            unchanged: summary.unchanged,
            elapsed: summary.elapsed.as_secs_f64(),
            progress: summary.motion.into(),
            failures: failures
                .map(|failed| (OsString::from_vec(failed.path), failed.code, failed.why))
                .collect(),
        }
    }
}

/// Actions of a dry run, counted.
#[derive(Debug, IntoPyObject)]
pub(crate) struct PlanRecord {
    bytes: u64,
    entries: u64,
    changes: u64,
    deletions: u64,
}

impl From<Plan> for PlanRecord {
    fn from(plan: Plan) -> Self {
        Self {
            bytes: plan.bytes,
            entries: plan.entries,
            changes: plan.changes,
            deletions: plan.deletions,
        }
    }
}
