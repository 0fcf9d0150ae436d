//! Copies.
#![expect(unsafe_code, reason = "exported names and pointers of the program")]

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::time::Duration;

use lighthaul::{
    Client, CopyEvent, CopyProgress, Error, Event, Limit, Rate, Summary as Done, Timestamp,
    Transfer,
};
use lighthaul_files::digest::DigestKind;
use lighthaul_files::filter::{FilterOption, Rules};
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_session::error::Code;

use super::client::ClientHandle;
use super::code::{LH_OK, LH_PARTIAL, LH_PENDING, ResultCode, result};
use crate::call::{c_string, run};
use crate::callback::{self, Callback};
use crate::fault::Fault;
use crate::handles::{self, Object};
use crate::memory::{self, Data, Request};

/// Running copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TransferHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// Progress of a copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes that have arrived.
    pub done: u64,
    /// Total size of the files to send, in bytes.
    pub total: u64,
    /// Files, directories and links in place.
    pub entries: u64,
}

/// Result of a copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Files, directories and links in place.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Entries that were already in place.
    pub unchanged: u64,
    /// Entries that failed.
    pub failures: u64,
    /// Time of the copy, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Function that receives the progress of a copy, in the thread of the copy. A nonzero return value cancels the copy. A
/// small copy may end without a call.
pub type ProgressFunction =
    Option<extern "C" fn(data: *mut c_void, progress: *const Progress) -> i32>;

/// Function that receives an entry that could not be copied, in the thread of the call.
pub type FailureFunction = Option<
    extern "C" fn(data: *mut c_void, path: *const c_char, code: ResultCode, why: *const c_char),
>;

/// Request for a copy. Places are written as on the command line: PATH, `lh://HOST/PATH` or HOST:PATH.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
// fields: one for each option
pub struct CopyRequest {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Sources, all on one host.
    pub sources: *const *const c_char,
    /// Number of sources.
    pub source_count: usize,
    /// Target.
    pub target: *const c_char,
    /// Rate on the wire, as in 900Mb/s [default: measured].
    pub rate: *const c_char,
    /// Limit of the rate, as in 10M, or 08:00,10M 18:00,off.
    pub limit: *const c_char,
    /// Protocol [default: auto].
    pub protocol: *const c_char,
    /// Retries after network failures [default: 5]; negative for none.
    pub retries: i32,
    /// 1 to use the target as the new name of the only source.
    pub exact: i32,
    /// 1 to preserve owners, too.
    pub archive: i32,
    /// 1 to compare contents instead of sizes and times.
    pub checksum: i32,
    /// 1 to skip files that are newer at the target.
    pub update: i32,
    /// 1 to delete entries at the target that the sources do not have.
    pub delete_extra: i32,
    /// 1 to read the files back from the target's device, and to compare them with the source.
    pub verify_disk: i32,
    /// 1 to send data without encryption, if the other side agrees.
    pub plain: i32,
    /// 1 to disable datagrams.
    pub no_udp: i32,
    /// Function that receives the progress; null for none.
    pub progress: ProgressFunction,
    /// First argument of that function. It must be valid until the copy is closed.
    pub data: *mut c_void,
    /// Filter rules in their order, as for rsync: `- *.tmp` leaves out, `+ *.h5` includes. The first match decides.
    pub filters: *const *const c_char,
    /// Number of filter rules.
    pub filter_count: usize,
    /// Longest time without a response, in seconds [default: 20].
    pub stall_timeout_s: u32,
    /// Longest time of the copy, in seconds [default: no limit]. The same request resumes it later.
    pub time_limit_s: u32,
}

// SAFETY: the structure begins with its size; pointers, numbers and functions may be zero.
unsafe impl Request for CopyRequest {
    const NAME: &'static str = "lh_copy_request";
    const FIRST: usize = offset_of!(Self, filters);
}

impl Object for Transfer {
    const NAME: &'static str = "transfer";
}

/// Starts a copy.
#[unsafe(no_mangle)]
pub extern "C" fn lh_copy_start(
    client: ClientHandle,
    request: *const CopyRequest,
    transfer: *mut TransferHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(transfer, "transfer")?;
        let id = handles::open(start(client, request)?);
        memory::store(transfer, TransferHandle { id });
        Ok(())
    }))
}

/// Makes a copy, and waits for its end. `summary` may be null. `LH_PARTIAL` means that some entries failed: start the
/// copy with `lh_copy_start()` to get their names.
#[unsafe(no_mangle)]
pub extern "C" fn lh_copy(
    client: ClientHandle,
    request: *const CopyRequest,
    summary: *mut Summary,
) -> ResultCode {
    let done = run(|| {
        // nothing has begun if this is refused
        callback::forbid()?;
        start(client, request)?.wait()
    });
    finish(done.map(Some), summary)
}

/// Waits up to `timeout_ms` milliseconds for the end of a copy; without a limit if that is negative. Returns
/// `LH_PENDING` if the copy still runs. `summary` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn lh_transfer_wait(
    transfer: TransferHandle,
    timeout_ms: i64,
    summary: *mut Summary,
) -> ResultCode {
    let done = run(|| {
        let transfer = handles::get::<Transfer>(transfer.id)?;
        if let Ok(limit) = u64::try_from(timeout_ms) {
            return transfer.wait_for(Duration::from_millis(limit)).transpose();
        }
        callback::forbid()?;
        ended(&transfer).map(Some)
    });
    finish(done, summary)
}

/// Stores the latest progress of a copy.
#[unsafe(no_mangle)]
pub extern "C" fn lh_transfer_progress(
    transfer: TransferHandle,
    progress: *mut Progress,
) -> ResultCode {
    result(run(|| {
        memory::require(progress, "progress")?;
        let transfer = handles::get::<Transfer>(transfer.id)?;
        memory::store(progress, shown(&transfer.progress()));
        Ok(())
    }))
}

/// Calls `each` for each entry that failed. Before the end of the copy, there are none.
#[unsafe(no_mangle)]
pub extern "C" fn lh_transfer_failures(
    transfer: TransferHandle,
    each: FailureFunction,
    data: *mut c_void,
) -> ResultCode {
    result(run(|| {
        let each = each.ok_or(Fault::Null("each"))?;
        let transfer = handles::get::<Transfer>(transfer.id)?;
        let Some(Ok(summary)) = transfer.wait_for(Duration::ZERO) else {
            return Ok(());
        };
        for failed in summary.failures {
            let path = String::from_utf8_lossy(&failed.path);
            let (path, why) = (c_string(&path), c_string(&failed.why));
            each(data, path.as_ptr(), failed.code.into(), why.as_ptr());
        }
        Ok(())
    }))
}

/// Cancels a copy, also from a callback. Incomplete files do not get their final names. The same copy can resume later.
#[unsafe(no_mangle)]
pub extern "C" fn lh_transfer_cancel(transfer: TransferHandle) -> ResultCode {
    result(run(|| {
        handles::get::<Transfer>(transfer.id)?.cancel();
        Ok(())
    }))
}

/// Cancels a copy that runs, waits for its end, and closes it. After that, its callback is not called. Within a
/// callback, it does not wait: it returns `LH_PENDING` if the copy has not ended, whose callback may run until it has.
#[unsafe(no_mangle)]
pub extern "C" fn lh_transfer_close(transfer: TransferHandle) -> ResultCode {
    let closed = run(|| {
        let transfer = handles::close::<Transfer>(transfer.id)?;
        transfer.cancel();
        if callback::is_within() {
            return Ok(transfer.wait_for(Duration::ZERO).is_some());
        }
        // its result is of no interest now
        ended(&transfer).map(drop).ok();
        Ok(true)
    });
    match closed {
        Ok(false) => LH_PENDING,
        closed => result(closed.map(drop)),
    }
}

/// Waits for the end of a copy that threads share.
fn ended(transfer: &Transfer) -> Result<Done, Error> {
    loop {
        if let Some(done) = transfer.wait_for(LOOK) {
            return done;
        }
    }
}

fn finish(done: Result<Option<Done>, Code>, summary: *mut Summary) -> ResultCode {
    match done {
        Ok(None) => LH_PENDING,
        Ok(Some(done)) => {
            memory::store(summary, counted(&done));
            if done.failures.is_empty() {
                LH_OK
            } else {
                LH_PARTIAL
            }
        }
        Err(code) => i32::from(code as u8),
    }
}

fn start(client: ClientHandle, request: *const CopyRequest) -> Result<Transfer, Error> {
    let client = handles::get::<Client>(client.id)?;
    let request = memory::request(request)?;
    let copy = copy(&request)?;
    let Some(function) = request.progress else {
        return client.copy(copy);
    };
    let data = Data::new(request.data);
    let mut is_cancelled = false;
    client.copy_observed(copy, move |event| {
        if let Event::Copy(CopyEvent::Moving(progress)) = event
            && !is_cancelled
        {
            let progress = shown(progress);
            let wish = callback::within(Callback::Progress, || {
                function(data.pointer(), &raw const progress)
            });
            is_cancelled = wish != 0;
            if is_cancelled {
                Cancellation::current().cancel();
            }
        }
    })
}

fn copy(request: &CopyRequest) -> Result<lighthaul::CopyRequest, Error> {
    let sources = memory::list(request.sources, request.source_count, "sources")?;
    let sources = sources.iter().map(|text| memory::place(*text, "a source"));
    let sources: Vec<_> = sources.collect::<Result<_, _>>()?;
    let target = memory::place(request.target, "target")?;
    let mut copy = lighthaul::CopyRequest::new(sources, target);
    let rate = memory::parsed::<Rate>(request.rate, "rate", "write it as in 900Mb/s")?;
    copy.rate = rate;
    let timetable = "write it as in 10M, or 08:00,10M 18:00,off";
    copy.limit = memory::parsed::<Limit>(request.limit, "limit", timetable)?;
    copy.options.protocol = memory::optional(request.protocol, "protocol")?.unwrap_or_default();
    if request.retries != 0 {
        copy.retries = u32::try_from(request.retries).unwrap_or(0);
    }
    copy.exact = request.exact != 0;
    copy.plain = request.plain != 0;
    if copy.plain {
        // without encryption, a digest without a key could be forged
        copy.options.digest = DigestKind::Blake3;
    }
    copy.udp = request.no_udp == 0;
    copy.options.keep.owner = request.archive != 0;
    copy.options.checksum = request.checksum != 0;
    copy.options.update = request.update != 0;
    copy.options.delete = request.delete_extra != 0;
    copy.options.verify_disk = request.verify_disk != 0;
    copy.options.rules = rules(request)?;
    copy.options.stall = request.stall_timeout_s;
    if request.time_limit_s > 0 {
        let limit = Duration::from_secs(request.time_limit_s.into());
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        copy.stop_at = Some(Timestamp(unix_nanos().saturating_add(nanos)));
    }
    Ok(copy)
}

/// Returns the filter rules of a request.
fn rules(request: &CopyRequest) -> Result<Rules, Error> {
    let filters = memory::list(request.filters, request.filter_count, "filters")?;
    let rule = |text: &*const c_char| memory::bytes(*text, "a filter").map(FilterOption::Filter);
    let options: Vec<FilterOption> = filters.iter().map(rule).collect::<Result<_, _>>()?;
    Rules::parse(&options)
}

const fn shown(progress: &CopyProgress) -> Progress {
    Progress {
        done: progress.done,
        total: progress.total,
        entries: progress.published,
    }
}

fn counted(done: &Done) -> Summary {
    Summary {
        entries: done.entries,
        bytes: done.bytes,
        unchanged: done.unchanged,
        failures: done.failures.len() as u64,
        elapsed_ns: u64::try_from(done.elapsed.as_nanos()).unwrap_or(u64::MAX),
    }
}

/// Interval of the checks of a wait without a limit.
const LOOK: Duration = Duration::from_hours(1);
