//! Request for a copy: plain data, without the words of a command line.

use std::path::PathBuf;

use lighthaul_base::{Rate, Size};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_files::digest::DigestKind;
use lighthaul_files::options::{Detail, Options};
use lighthaul_fs::metadata::Keep;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;
use lighthaul_session::protocol::Protocol;

use crate::fault::Fault;
use crate::limit::Limit;
use crate::list::List;

/// Copy to make. [`CopyRequest::new`] has the defaults of `lighthaul cp`; set the fields that differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
// fields: one for each part of a request
pub struct CopyRequest {
    /// Sources, all on one host.
    pub sources: Vec<Place>,
    /// Target. Either it or the sources are on this host, or both are on other hosts.
    pub target: Place,
    /// Further hosts that see the same files as the first source, and send parts of them.
    pub more_sources: Vec<Place>,
    /// Further hosts that share the file system of the target, and receive parts of the files.
    pub more_targets: Vec<Place>,
    /// Gives each target host whole files of its own, since the hosts share no file system.
    pub split: bool,
    /// Makes the target the new name of the only source, even if it is a directory.
    pub exact: bool,
    /// Selection of files, metadata, verification and protocol.
    pub options: Options,
    /// Paths of the entries to copy, relative to the only source; none to copy the whole source.
    pub list: Option<List>,
    /// Rate on the wire; none to measure the path.
    pub rate: Option<Rate>,
    /// Times with a rate limit.
    pub limit: Option<Limit>,
    /// Sends data without encryption, if the other side agrees. The control connection stays encrypted.
    pub plain: bool,
    /// Uses datagrams where they pass.
    pub udp: bool,
    /// Number of further attempts after failures of the network.
    pub retries: u32,
    /// Follows redirects of web servers, but none from `https://` to `http://`.
    pub redirects: bool,
    /// Time at which the copy ends, whether it is complete or not.
    pub stop_at: Option<Timestamp>,
    /// Capacity to reserve for the copy.
    pub booking: Option<Booking>,
}

/// Capacity that is reserved for a copy, and released after the copy.
#[derive(Clone, Debug)]
pub struct Booking {
    /// Network of the capacity.
    pub from: Network,
    /// Name of this host in the topology; none for its host name. Between two other hosts, that of the source.
    pub node: Option<String>,
    /// Name of the other host; none for its host name.
    pub far_node: Option<String>,
    /// Bytes that the copy will send; none to count them.
    pub size: Option<Size>,
    /// Time by which all files must be in place.
    pub deadline: Option<Timestamp>,
}

/// Network that capacity is reserved in.
#[derive(Clone, Debug)]
pub enum Network {
    /// A circuit of the client's scheduler, whose packets enter at the given interface, if any.
    Circuit(Option<String>),
    /// A path across domains, from the service at the given socket; none for the default socket.
    Path(Option<PathBuf>),
}

impl CopyRequest {
    /// Returns a request for a copy of `sources` to `target`, with all defaults.
    pub fn new(sources: impl IntoIterator<Item = Place>, target: Place) -> Self {
        Self {
            sources: sources.into_iter().collect(),
            target,
            more_sources: Vec::new(),
            more_targets: Vec::new(),
            split: false,
            exact: false,
            options: defaults(),
            list: None,
            rate: None,
            limit: None,
            plain: false,
            udp: true,
            retries: RETRIES,
            redirects: true,
            stop_at: None,
            booking: None,
        }
    }

    /// Returns a request for a copy between several hosts on each side, with all defaults. Each place is given as the same
    /// path on all hosts of its side (see [`Place::parse_hosts`]). Fails if two sources are on different hosts.
    pub fn between_hosts(
        sources: impl IntoIterator<Item = Vec<Place>>,
        target: Vec<Place>,
    ) -> Result<Self, Error> {
        let sources: Vec<Vec<Place>> = sources.into_iter().collect();
        let hosts = sources.first().cloned().unwrap_or_default();
        let is_same = |other: &Vec<Place>| {
            let mut pairs = other.iter().zip(&hosts);
            other.len() == hosts.len() && pairs.all(|(one, other)| one.is_with(other))
        };
        if !sources.iter().all(is_same) {
            return Err(Fault::SeveralHosts.into());
        }
        let mut targets = target.into_iter();
        let first = sources.into_iter().filter_map(|one| one.into_iter().next());
        let mut request = Self::new(first, targets.next().ok_or(Fault::NoSource)?);
        request.more_sources = hosts.into_iter().skip(1).collect();
        request.more_targets = targets.collect();
        Ok(request)
    }

    /// Returns true if several pairs of hosts make the copy together.
    pub(crate) const fn is_striped(&self) -> bool {
        !self.more_sources.is_empty() || !self.more_targets.is_empty()
    }

    /// Returns the same copy as a dry run, which compares both sides and changes nothing.
    #[must_use]
    pub fn dry(&self) -> Self {
        let mut dry = self.clone();
        // it needs no datagrams
        dry.options.protocol = Protocol::Tcp.to_string();
        dry.options.dry_run = Some(Detail::Brief);
        if dry.options.checksum {
            // the digests are not known before: all files may be sent
            dry.options.checksum = false;
            dry.options.dry_run = Some(Detail::All);
        }
        dry
    }
}

/// Returns the options of a copy without any.
fn defaults() -> Options {
    Options {
        keep: Keep {
            mode: true,
            modified: true,
            ..Keep::default()
        },
        sync: true,
        digest: DigestKind::Crc128,
        ..Options::default()
    }
}

/// Default number of further attempts.
const RETRIES: u32 = 5;
