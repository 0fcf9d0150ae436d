//! Streams of messages.
#![expect(unsafe_code, reason = "exported names and pointers of the program")]

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul::{
    Client, Direction, Error, Frames, MessageOptions, ObjectOptions, Rate, Received, Size, Stream,
    StreamKind, StreamSummary,
};

use super::client::ClientHandle;
use super::code::{LH_END, LH_OK, LH_PENDING, ResultCode, result};
use crate::call::run;
use crate::callback;
use crate::fault::invalid;
use crate::handles::{self, Object};
use crate::memory::{self, Request};

/// Running stream.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StreamHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// Framing: each message follows its length, a big-endian number of four bytes.
pub const LH_PREFIXED: i32 = 0;
/// Framing: each message is a line.
pub const LH_LINES: i32 = 1;
/// Framing: each message has `message_bytes` bytes; the last one may have fewer.
pub const LH_FIXED: i32 = 2;

/// Request for a stream to or from a pipe or file of another host. Exactly one of `to` and `from` must be set.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
// fields: one for each option
pub struct StreamRequest {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Place to which this program sends, as in `lh://HOST/PIPE`.
    pub to: *const c_char,
    /// Place from which this program receives.
    pub from: *const c_char,
    /// Highest rate on the wire, as in 900Mb/s [default: measured].
    pub rate: *const c_char,
    /// Forward error correction of messages: none, xor:N or rs:N+M [default: xor:3].
    pub code: *const c_char,
    /// Longest time that a message waits for the rest of its block, in microseconds [default: 2000].
    pub linger_us: u64,
    /// Age from which a message counts as late, in microseconds [default: no limit].
    pub deadline_us: u64,
    /// Size of the largest object in bytes. Nonzero for a stream of objects, which loses none; 0 for one of messages.
    pub object_bytes: u64,
    /// Objects per second.
    pub objects_per_second: f64,
    /// Time to collect a payload of objects, and also the time to send it, in microseconds [default: 500000].
    pub delay_us: u64,
    /// Length of each message in bytes, for `LH_FIXED`.
    pub message_bytes: u32,
    /// Framing of the messages in the pipe: `LH_PREFIXED`, `LH_LINES` or `LH_FIXED`.
    pub frames: i32,
    /// 1 to drop late messages.
    pub drop_late: i32,
    /// 1 to send data without encryption, if the other side agrees.
    pub plain: i32,
    /// 1 to disable datagrams, so that no message is lost.
    pub no_udp: i32,
}

// SAFETY: the structure begins with its size; pointers and numbers may be zero.
unsafe impl Request for StreamRequest {
    const NAME: &'static str = "lh_stream_request";
    const FIRST: usize = size_of::<Self>();
}

/// Statistics of a stream.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Messages or objects that were sent.
    pub messages: u64,
    /// Messages or objects that arrived.
    pub delivered: u64,
    /// Bytes of the messages or objects that arrived.
    pub bytes: u64,
    /// Messages or objects that were late.
    pub late: u64,
    /// Messages that did not arrive.
    pub lost: u64,
    /// Lost messages that forward error correction restored.
    pub repaired: u64,
    /// Messages that arrived and were dropped, because the reader was too slow.
    pub unread: u64,
    /// Median of the latency, in microseconds.
    pub latency_p50_us: u64,
    /// 99th percentile of the latency, in microseconds.
    pub latency_p99_us: u64,
    /// Round-trip time of the path, in microseconds.
    pub rtt_us: u64,
}

/// Stream, and received messages that did not fit into the program's buffer. They are not locked during a wait, so that
/// a thread with a time limit does not wait for another one.
struct Open {
    stream: Stream,
    kept: Mutex<VecDeque<Vec<u8>>>,
}

impl Open {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a message and its length. Keeps the message if the buffer is too small.
    fn store(
        &self,
        message: Vec<u8>,
        buffer: (*mut c_void, usize),
        len: *mut usize,
    ) -> Result<(), Error> {
        memory::store(len, message.len());
        let copied = memory::output(&message, buffer, "buffer");
        if copied.is_err() {
            self.kept().push_back(message);
        }
        copied
    }
}

impl Object for Open {
    const NAME: &'static str = "stream";
}

/// Opens a stream, and returns before it is connected. A later call reports a failure to connect.
#[unsafe(no_mangle)]
pub extern "C" fn lh_stream_open(
    client: ClientHandle,
    request: *const StreamRequest,
    stream: *mut StreamHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(stream, "stream")?;
        let client = handles::get::<Client>(client.id)?;
        let wanted = wanted(&memory::request(request)?)?;
        let id = handles::open(Open {
            stream: client.stream(wanted)?,
            kept: Mutex::default(),
        });
        memory::store(stream, StreamHandle { id });
        Ok(())
    }))
}

/// Sends a message. Waits while the buffer of the stream is full, so a function for notices cannot call it.
#[unsafe(no_mangle)]
pub extern "C" fn lh_stream_send(
    stream: StreamHandle,
    message: *const c_void,
    len: usize,
) -> ResultCode {
    result(run(|| {
        callback::forbid_in_note()?;
        let open = handles::get::<Open>(stream.id)?;
        open.stream.send(memory::input(message, len, "message")?)
    }))
}

/// Waits for the next message, copies it into `buffer`, and stores its length. Returns `LH_END` at the end of the
/// stream. If the buffer is too small, returns `LH_USAGE` and stores the length; the message is kept for the next call.
/// Within a callback, only `lh_stream_receive_within()` can be called.
#[unsafe(no_mangle)]
pub extern "C" fn lh_stream_receive(
    stream: StreamHandle,
    buffer: *mut c_void,
    capacity: usize,
    len: *mut usize,
) -> ResultCode {
    let received = run(|| {
        memory::require(len, "len")?;
        callback::forbid()?;
        let open = handles::get::<Open>(stream.id)?;
        let kept = open.kept().pop_front();
        let next = kept.map_or_else(|| open.stream.receive(), |kept| Ok(Some(kept)))?;
        let Some(message) = next else {
            return Ok(false);
        };
        open.store(message, (buffer, capacity), len).map(|()| true)
    });
    match received {
        Ok(false) => LH_END,
        received => result(received.map(drop)),
    }
}

/// Does the same as `lh_stream_receive()`, but waits for `timeout_ms` milliseconds at most. Returns `LH_PENDING` if no
/// message has arrived by then. With 0, it takes a message that has arrived, and does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn lh_stream_receive_within(
    stream: StreamHandle,
    timeout_ms: u32,
    buffer: *mut c_void,
    capacity: usize,
    len: *mut usize,
) -> ResultCode {
    let received = run(|| {
        memory::require(len, "len")?;
        let open = handles::get::<Open>(stream.id)?;
        let limit = Duration::from_millis(timeout_ms.into());
        let kept = open.kept().pop_front();
        let next = kept.map_or_else(
            || open.stream.receive_within(limit),
            |kept| Ok(Received::Message(kept)),
        )?;
        let message = match next {
            Received::Message(message) => message,
            Received::End => return Ok(LH_END),
            Received::Pending => return Ok(LH_PENDING),
        };
        open.store(message, (buffer, capacity), len).map(|()| LH_OK)
    });
    received.unwrap_or_else(|code| i32::from(code as u8))
}

/// Ends a stream, and waits until all messages have arrived. A stream that receives ends with its source; messages that
/// were not received are dropped. `report` may be null. A callback cannot call it.
#[unsafe(no_mangle)]
pub extern "C" fn lh_stream_finish(stream: StreamHandle, report: *mut Report) -> ResultCode {
    result(run(|| {
        callback::forbid()?;
        let open = handles::get::<Open>(stream.id)?;
        let summary = open.stream.finish()?;
        memory::store(report, counted(&summary));
        Ok(())
    }))
}

/// Cancels a stream, also while another thread waits for it. It ends with `LH_INTERRUPTED`.
#[unsafe(no_mangle)]
pub extern "C" fn lh_stream_cancel(stream: StreamHandle) -> ResultCode {
    result(run(|| {
        handles::get::<Open>(stream.id)?.stream.cancel();
        Ok(())
    }))
}

/// Cancels a stream that runs, also while another thread waits for it, waits for its end, and closes it. Within a
/// callback, it does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn lh_stream_close(stream: StreamHandle) -> ResultCode {
    result(run(|| {
        let open = handles::close::<Open>(stream.id)?;
        open.stream.cancel();
        if !callback::is_within() {
            // its result is of no interest now
            while open.stream.wait_for(LOOK).is_none() {}
        }
        Ok(())
    }))
}

pub(super) fn wanted(request: &StreamRequest) -> Result<lighthaul::StreamRequest, Error> {
    let (place, direction) = match (request.to.is_null(), request.from.is_null()) {
        (false, true) => (request.to, Direction::To),
        (true, false) => (request.from, Direction::From),
        (true, true) | (false, false) => {
            let allowed = "set exactly one of `to` and `from`";
            return Err(invalid("the direction", "not clear", allowed));
        }
    };
    let place = memory::place(place, "place")?;
    let mut wanted = match direction {
        Direction::To => lighthaul::StreamRequest::to(place),
        Direction::From => lighthaul::StreamRequest::from(place),
    };
    wanted.frames = frames(request)?;
    wanted.kind = kind(request)?;
    wanted.rate = memory::parsed::<Rate>(request.rate, "rate", "write it as in 900Mb/s")?;
    wanted.plain = request.plain != 0;
    wanted.udp = request.no_udp == 0;
    Ok(wanted)
}

fn frames(request: &StreamRequest) -> Result<Frames, Error> {
    match request.frames {
        LH_PREFIXED => Ok(Frames::Prefixed),
        LH_LINES => Ok(Frames::Lines),
        LH_FIXED => {
            let len = NonZeroU32::new(request.message_bytes);
            let len =
                len.ok_or_else(|| invalid("message_bytes", "0", "LH_FIXED needs a message length"));
            len.map(Frames::Fixed)
        }
        other => {
            let allowed = "use LH_PREFIXED, LH_LINES or LH_FIXED";
            Err(invalid("frames", &other.to_string(), allowed))
        }
    }
}

fn kind(request: &StreamRequest) -> Result<StreamKind, Error> {
    let micros = |micros: u64| (micros > 0).then(|| Duration::from_micros(micros));
    if request.object_bytes > 0 {
        let size = Size(request.object_bytes);
        let mut options = ObjectOptions::new(size, request.objects_per_second);
        options.delay = micros(request.delay_us).unwrap_or(options.delay);
        return Ok(StreamKind::Objects(options));
    }
    let mut options = MessageOptions::default();
    if let Some(code) = memory::optional(request.code, "code")? {
        options.code = code;
    }
    options.linger = micros(request.linger_us).unwrap_or(options.linger);
    options.deadline = micros(request.deadline_us);
    options.drop_late = request.drop_late != 0;
    Ok(StreamKind::Messages(options))
}

pub(super) fn counted(summary: &StreamSummary) -> Report {
    let report = &summary.report;
    Report {
        messages: report.messages,
        delivered: report.delivered,
        bytes: report.bytes,
        late: report.late,
        lost: report.lost,
        repaired: report.repaired,
        unread: report.unread,
        latency_p50_us: report.latency_p50_us,
        latency_p99_us: report.latency_p99_us,
        rtt_us: u64::try_from(summary.rtt.as_micros()).unwrap_or(u64::MAX),
    }
}

/// Interval at which a thread that waits without a limit looks again.
const LOOK: Duration = Duration::from_hours(1);
