//! A stream of messages. The package reads and writes its socket.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::os::fd::{IntoRawFd, RawFd};
use std::time::Duration;

use lighthaul::{
    Frames, MessageOptions, ObjectOptions, Size, StreamKind, StreamRequest, StreamSummary,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::end_sockets::EndSockets;
use crate::errors::raised;
use crate::options::{RateOption, SizeOption, duration, place};

/// Running stream. It is cancelled when this value is dropped.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Stream {
    running: lighthaul::Stream,
    ends: EndSockets,
    /// Process that has the thread of the stream. A child of it has only a copy of this value.
    process: u32,
}

impl Stream {
    /// Returns the stream that `running` runs.
    pub(crate) fn new(running: lighthaul::Stream) -> Self {
        Self {
            running,
            ends: EndSockets::default(),
            process: std::process::id(),
        }
    }

    fn owned(&self) -> PyResult<&lighthaul::Stream> {
        if self.process == std::process::id() {
            return Ok(&self.running);
        }
        let text = "the stream belongs to the parent of this process: open another one here";
        Err(PyRuntimeError::new_err(text))
    }
}

#[pymethods]
impl Stream {
    /// Returns a descriptor of the socket with the messages, each after its length.
    fn socket(&self, py: Python<'_>) -> PyResult<RawFd> {
        let socket = self.owned()?.socket();
        let socket = socket.map_err(|error| raised(py, &error))?;
        Ok(socket.into_raw_fd())
    }

    /// Waits for the end of the stream, for at most `seconds`. Returns true if it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let stream = self.owned()?;
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Ok(py.detach(|| stream.wait_for(time)).is_some())
    }

    /// Cancels the stream, unless it belongs to the parent of this process.
    fn cancel(&self) {
        if let Ok(stream) = self.owned() {
            stream.cancel();
        }
    }

    /// Returns the result; none if the stream has not ended. Raises the error that ended it.
    fn result(&self, py: Python<'_>) -> PyResult<Option<ReportRecord>> {
        let result = self.owned()?.wait_for(Duration::ZERO);
        let summary = result.transpose().map_err(|error| raised(py, &error))?;
        Ok(summary.map(ReportRecord::from))
    }

    /// Returns a new socket that can be read once the stream has ended.
    fn end_socket(&self) -> PyResult<RawFd> {
        self.ends.socket(self.owned()?)
    }
}

/// Place and options of a stream.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
// fields: one for each option
pub(crate) struct StreamOptions {
    place: OsString,
    to: bool,
    #[pyo3(default)]
    frames: Option<FramesOption>,
    #[pyo3(default)]
    rate: Option<RateOption>,
    #[pyo3(default)]
    plain: bool,
    #[pyo3(default)]
    no_udp: bool,
    #[pyo3(default)]
    code: Option<String>,
    #[pyo3(default)]
    linger: Option<f64>,
    #[pyo3(default)]
    deadline: Option<f64>,
    #[pyo3(default)]
    drop_late: bool,
    #[pyo3(default)]
    object_size: Option<SizeOption>,
    #[pyo3(default)]
    objects_per_second: Option<f64>,
    #[pyo3(default)]
    delay: Option<f64>,
    #[pyo3(default)]
    blasts: Option<u8>,
}

/// Framing of the messages at the other host.
#[derive(Debug, FromPyObject)]
enum FramesOption {
    /// Length of each message.
    Fixed(u32),
    /// Name of another framing.
    Named(String),
}

impl StreamOptions {
    /// Returns the request for the stream.
    pub(crate) fn request(self, py: Python<'_>) -> PyResult<StreamRequest> {
        let place = place(py, self.place.clone())?;
        let mut request = if self.to {
            StreamRequest::to(place)
        } else {
            StreamRequest::from(place)
        };
        request.frames = match &self.frames {
            None => Frames::Prefixed,
            Some(FramesOption::Fixed(len)) => {
                let len = NonZeroU32::new(*len);
                Frames::Fixed(len.ok_or_else(|| PyValueError::new_err("frames have no length"))?)
            }
            Some(FramesOption::Named(name)) => match name.as_str() {
                "prefixed" => Frames::Prefixed,
                "lines" => Frames::Lines,
                _ => {
                    let text = "frames is prefixed, lines or a number of bytes";
                    return Err(PyValueError::new_err(text));
                }
            },
        };
        request.rate = self.rate.as_ref().map(RateOption::rate).transpose()?;
        request.plain = self.plain;
        request.udp = !self.no_udp;
        request.kind = self.kind()?;
        Ok(request)
    }

    fn kind(&self) -> PyResult<StreamKind> {
        let (size, per_second) = match (&self.object_size, self.objects_per_second) {
            (Some(size), Some(per_second)) => (size.bytes()?, per_second),
            (None, None) => return self.messages(),
            (Some(_), None) | (None, Some(_)) => {
                let text = "objects need both object_size and objects_per_second";
                return Err(PyValueError::new_err(text));
            }
        };
        let mut options = ObjectOptions::new(Size(size), per_second);
        options.delay = duration("delay", self.delay)?.unwrap_or(options.delay);
        options.blasts = self.blasts.unwrap_or(options.blasts);
        Ok(StreamKind::Objects(options))
    }

    fn messages(&self) -> PyResult<StreamKind> {
        let mut options = MessageOptions::default();
        if let Some(code) = &self.code {
            options.code.clone_from(code);
        }
        options.linger = duration("linger", self.linger)?.unwrap_or(options.linger);
        options.deadline = duration("deadline", self.deadline)?;
        options.drop_late = self.drop_late;
        Ok(StreamKind::Messages(options))
    }
}

/// Result of a stream.
#[derive(Debug, IntoPyObject)]
// fields: one for each number
struct ReportRecord {
    messages: u64,
    delivered: u64,
    bytes: u64,
    late: u64,
    lost: u64,
    repaired: u64,
    unread: u64,
    latency_p50: f64,
    latency_p99: f64,
    latency_max: f64,
    rtt: f64,
}

impl From<StreamSummary> for ReportRecord {
    fn from(summary: StreamSummary) -> Self {
        let report = summary.report;
        let seconds = |micros: u64| micros as f64 / 1e6;
        Self {
            messages: report.messages,
            delivered: report.delivered,
            bytes: report.bytes,
            late: report.late,
            lost: report.lost,
            repaired: report.repaired,
            unread: report.unread,
            latency_p50: seconds(report.latency_p50_us),
            latency_p99: seconds(report.latency_p99_us),
            latency_max: seconds(report.latency_max_us),
            rtt: summary.rtt.as_secs_f64(),
        }
    }
}
