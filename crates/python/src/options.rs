//! Settings of clients and options of copies, in the form that the package passes.
//!
//! An option that is not passed has the default of the command.

use std::ffi::OsString;
use std::mem;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lighthaul::{CopyRequest, Install, List, Place, Rate, Settings, Size, Timestamp, Token};
use lighthaul_files::digest::DigestKind;
use lighthaul_files::filter::{FilterOption, Rules};
use lighthaul_files::options::DeltaMode;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::raised;
use crate::notes::Notes;

/// Settings of a client.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
// fields: one for each setting
pub(crate) struct ClientSettings {
    key: Option<PathBuf>,
    known_hosts: Option<PathBuf>,
    pin: Option<String>,
    strict: bool,
    token: Option<Secret>,
    statement: Option<PathBuf>,
    ssh: Option<String>,
    remote: Option<String>,
    install: bool,
    port_range: Option<String>,
    gateway: Option<Secret>,
    known_paths: Option<PathBuf>,
}

/// Text that is not shown in a log.
#[derive(FromPyObject)]
#[pyo3(transparent)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl ClientSettings {
    /// Returns the settings for the library, with a user who reads `notes`.
    pub(crate) fn settings(self, notes: Arc<Notes>) -> PyResult<Settings> {
        let mut settings = Settings::default();
        let route = &mut settings.route;
        let daemon = &mut route.daemon;
        daemon.key = self.key;
        daemon.known_hosts = self.known_hosts;
        daemon.pin = self.pin;
        daemon.strict = self.strict;
        daemon.token = self.token.map(|Secret(token)| Token(token));
        daemon.statement = self.statement;
        daemon.user = notes;
        route.ssh = self.ssh.unwrap_or_else(|| mem::take(&mut route.ssh));
        let program = self.remote;
        route.program = program.unwrap_or_else(|| mem::take(&mut route.program));
        route.install = if self.install {
            Install::Always
        } else {
            Install::Never
        };
        let ports = self.port_range.map(|text| parsed(&text));
        route.ports = ports.transpose()?;
        let gateway = self.gateway.map(|Secret(text)| parsed(&text));
        route.gateway = gateway.transpose()?;
        settings.known_paths = self.known_paths;
        Ok(settings)
    }
}

/// Places and options of a copy.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
// fields: one for each option
pub(crate) struct CopyOptions {
    sources: Vec<OsString>,
    target: OsString,
    #[pyo3(default)]
    rate: Option<RateOption>,
    #[pyo3(default)]
    limit: Option<String>,
    #[pyo3(default)]
    protocol: Option<String>,
    #[pyo3(default)]
    retries: Option<u32>,
    #[pyo3(default)]
    stop_at: Option<f64>,
    #[pyo3(default)]
    stall_timeout: Option<f64>,
    #[pyo3(default)]
    plain: bool,
    #[pyo3(default)]
    no_udp: bool,
    #[pyo3(default)]
    exact: bool,
    #[pyo3(default)]
    files: Option<Vec<OsString>>,
    #[pyo3(default)]
    include: Vec<OsString>,
    #[pyo3(default)]
    exclude: Vec<OsString>,
    #[pyo3(default)]
    delete: bool,
    #[pyo3(default)]
    max_delete: Option<u64>,
    #[pyo3(default)]
    update: bool,
    #[pyo3(default)]
    checksum: bool,
    #[pyo3(default)]
    archive: bool,
    #[pyo3(default)]
    hard_links: bool,
    #[pyo3(default)]
    xattrs: bool,
    #[pyo3(default)]
    acls: bool,
    #[pyo3(default)]
    atimes: bool,
    #[pyo3(default)]
    sparse: bool,
    #[pyo3(default)]
    copy_links: bool,
    #[pyo3(default)]
    one_file_system: bool,
    #[pyo3(default)]
    remove_source_files: bool,
    #[pyo3(default)]
    inplace: bool,
    #[pyo3(default)]
    verify: Option<String>,
    #[pyo3(default)]
    digest: Option<String>,
    #[pyo3(default)]
    delta: Option<String>,
}

/// Rate in bits a second, or with its unit.
#[derive(Debug, FromPyObject)]
pub(crate) enum RateOption {
    /// Bits a second.
    Bits(u64),
    /// Text as on the command line.
    Text(String),
}

impl RateOption {
    /// Returns the rate.
    pub(crate) fn rate(&self) -> PyResult<Rate> {
        match self {
            Self::Bits(bits) => {
                Rate::from_bps(*bits).ok_or_else(|| PyValueError::new_err("the rate is zero"))
            }
            Self::Text(text) => parsed(text),
        }
    }
}

/// Size in bytes, or with its unit.
#[derive(Debug, FromPyObject)]
pub(crate) enum SizeOption {
    /// Bytes.
    Bytes(u64),
    /// Text as on the command line.
    Text(String),
}

impl SizeOption {
    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> PyResult<u64> {
        match self {
            Self::Bytes(bytes) => Ok(*bytes),
            Self::Text(text) => parsed(text).map(|size: Size| size.0),
        }
    }
}

/// Returns a rate in bits a second.
#[pyfunction]
pub(crate) fn bits_per_second(rate: &Bound<'_, PyAny>) -> PyResult<u64> {
    let text = "a rate is a whole number of bits a second, or text as in 900Mb/s";
    let rate = rate.extract::<RateOption>();
    let rate = rate.map_err(|_| PyTypeError::new_err(text))?;
    rate.rate().map(Rate::as_bps)
}

/// Returns a size in bytes.
#[pyfunction]
pub(crate) fn byte_count(size: &Bound<'_, PyAny>) -> PyResult<u64> {
    let text = "a size is a whole number of bytes, or text as in 100GB";
    let size = size.extract::<SizeOption>();
    size.map_err(|_| PyTypeError::new_err(text))?.bytes()
}

impl CopyOptions {
    /// Returns the request for the copy.
    pub(crate) fn request(mut self, py: Python<'_>) -> PyResult<CopyRequest> {
        let sources = mem::take(&mut self.sources).into_iter();
        let sources: PyResult<Vec<Vec<Place>>> = sources.map(|text| hosts(py, text)).collect();
        let target = hosts(py, mem::take(&mut self.target))?;
        let request = CopyRequest::between_hosts(sources?, target);
        let mut request = request.map_err(|error| raised(py, &error))?;
        request.exact = self.exact;
        request.rate = self.rate.as_ref().map(RateOption::rate).transpose()?;
        request.limit = self.limit.as_deref().map(parsed).transpose()?;
        request.plain = self.plain;
        request.udp = !self.no_udp;
        request.retries = self.retries.unwrap_or(request.retries);
        let since_1970 = duration("stop_at", self.stop_at)?;
        let nanos = since_1970.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        request.stop_at = nanos.map(Timestamp);
        self.set_options(py, &mut request)?;
        if let Some(paths) = self.files {
            request.options.listed = true;
            request.list = Some(List::of_paths(paths.into_iter().map(OsStringExt::into_vec)));
        }
        Ok(request)
    }

    /// Sets the options that both sides use.
    fn set_options(&self, py: Python<'_>, request: &mut CopyRequest) -> PyResult<()> {
        let pattern = |text: &OsString| text.clone().into_vec();
        let included = self.include.iter().map(pattern).map(FilterOption::Include);
        let excluded = self.exclude.iter().map(pattern).map(FilterOption::Exclude);
        let rules: Vec<FilterOption> = included.chain(excluded).collect();
        let options = &mut request.options;
        options.rules = Rules::parse(&rules).map_err(|error| raised(py, &error))?;
        options.protocol = self.protocol.clone().unwrap_or_default();
        let stall = duration("stall_timeout", self.stall_timeout)?;
        let seconds = stall.map_or(0, |time| time.as_nanos().div_ceil(1_000_000_000));
        options.stall = u32::try_from(seconds).unwrap_or(u32::MAX);
        options.delete = self.delete;
        options.max_delete = self.max_delete;
        options.update = self.update;
        options.checksum = self.checksum;
        options.keep.owner = self.archive;
        options.keep.xattrs = self.xattrs;
        options.keep.acls = self.acls;
        options.keep.accessed = self.atimes;
        options.hard_links = self.hard_links;
        options.sparse = self.sparse;
        options.copy_links = self.copy_links;
        options.one_file_system = self.one_file_system;
        options.remove_source = self.remove_source_files;
        options.inplace = self.inplace;
        let digest = match (self.digest.as_deref(), self.plain) {
            (Some("crc128"), _) | (None, false) => DigestKind::Crc128,
            (Some("blake3"), _) | (None, true) => DigestKind::Blake3,
            (Some(_), _) => return Err(PyValueError::new_err("digest is crc128 or blake3")),
        };
        (options.digest, options.verify_disk) = match self.verify.as_deref() {
            None | Some("transfer") => (digest, false),
            Some("disk") => (digest, true),
            Some("none") => (DigestKind::None, false),
            Some(_) => return Err(PyValueError::new_err("verify is transfer, disk or none")),
        };
        options.delta = match self.delta.as_deref() {
            None | Some("auto") => DeltaMode::Auto,
            Some("always") => DeltaMode::Always,
            Some("never") => DeltaMode::Never,
            Some(_) => return Err(PyValueError::new_err("delta is auto, always or never")),
        };
        Ok(())
    }
}

/// Returns a place. Text that is not UTF-8 is a local path.
pub(crate) fn place(py: Python<'_>, text: OsString) -> PyResult<Place> {
    match text.into_string() {
        Ok(text) => Place::parse(&text).map_err(|error| raised(py, &error)),
        Err(path) => Ok(Place::Here(path.into())),
    }
}

/// Returns a place on each of its hosts. Text that is not UTF-8 is a local path.
fn hosts(py: Python<'_>, text: OsString) -> PyResult<Vec<Place>> {
    match text.into_string() {
        Ok(text) => Place::parse_hosts(&text).map_err(|error| raised(py, &error)),
        Err(path) => Ok(vec![Place::Here(path.into())]),
    }
}

/// Returns the value of an option's text.
pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> PyResult<T> {
    text.parse()
        .map_err(|why: T::Err| PyValueError::new_err(why.to_string()))
}

/// Returns a time in seconds, which the option `name` has.
pub(crate) fn duration(name: &str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let time = seconds.map(Duration::try_from_secs_f64).transpose();
    time.map_err(|why| PyValueError::new_err(format!("{name}: {why}")))
}
