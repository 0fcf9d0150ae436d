//! Request of a copy with the settings of its client, in the form on which both sides agree.

use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Rate, Trc};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_copy::message::{Landing, Target};
use lighthaul_files::list::PathList;
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::Route;
use lighthaul_session::error::Error;
use lighthaul_session::message::Hello;
use lighthaul_session::protocol::{AUTO, Protocol};
use lighthaul_session::topic::Topic;

use crate::copy::gateway;
use crate::fault::Fault;
use crate::request::CopyRequest;
use crate::settings::Settings;

/// Copy to make.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) request: CopyRequest,
    pub(crate) settings: Arc<Settings>,
    /// Start of the vector in the options, if the vector does not wait for the data.
    vector_at: Option<Timestamp>,
}

impl Job {
    /// Returns the job with a unique number, which is the same in each of its attempts.
    pub(crate) fn new(mut request: CopyRequest, settings: Arc<Settings>) -> Self {
        request.options.copy = Some(random_octets());
        Self {
            request,
            settings,
            vector_at: None,
        }
    }

    /// Returns the same copy as a dry run.
    pub(crate) fn dry(&self) -> Self {
        Self {
            request: self.request.dry(),
            ..self.clone()
        }
    }

    /// Returns the same copy over TCP.
    pub(crate) fn ordinary(&self) -> Self {
        let mut ordinary = self.clone();
        ordinary.request.options.protocol = Protocol::Tcp.to_string();
        ordinary
    }

    /// Returns the same copy at the rates of a vector from `start` on.
    pub(crate) fn following(&self, vector: &Trc, start: Timestamp) -> Self {
        let mut booked = self.clone();
        let options = &mut booked.request.options;
        options.trc = vector.to_string();
        options.protocol = Protocol::Vbtp.to_string();
        booked.vector_at = Some(start);
        booked
    }

    /// Returns the route to the other host.
    pub(crate) fn route(&self) -> &Route {
        &self.settings.route
    }

    /// Returns the route for the data of the copy.
    pub(crate) fn bulk_route(&self) -> Route {
        let options = &self.request.options;
        let mut route = Route {
            is_bulk: options.dry_run.is_none(),
            ..self.settings.route.clone()
        };
        if options.stall > 0 {
            route.patience = Duration::from_secs(options.stall.into());
        }
        route
    }

    /// Returns true if the caller selected no protocol.
    pub(crate) fn is_open(&self) -> bool {
        self.request.options.protocol.is_empty()
    }

    /// Returns the options that both sides use. Times of a vector count from now.
    pub(crate) fn options(&self) -> Result<Options, Error> {
        let mut options = self.request.options.clone();
        let usual = if options.trc.is_empty() {
            AUTO
        } else {
            Protocol::Vbtp.name()
        };
        options.protocol = match gateway::protocol(&self.request, &self.settings)? {
            Some(protocol) => protocol.to_string(),
            None if self.is_open() => usual.to_owned(),
            None => options.protocol,
        };
        options.listed = self.request.list.is_some();
        options.trc_in = self.vector_at.map(|at| {
            at.0.cast_signed()
                .saturating_sub(unix_nanos().cast_signed())
        });
        Ok(options)
    }

    /// Returns the first message to the other side, with a request of topic `M`.
    pub(crate) fn hello<M: Topic>(&self, request: &M::Request) -> Hello {
        let limit = self.request.limit.as_ref();
        Hello {
            plain: self.request.plain,
            rate_bps: self.request.rate.map(Rate::as_bps),
            limit: limit.map_or_else(String::new, |limit| limit.text.clone()),
            ..Hello::about::<M>(request)
        }
    }

    /// Returns the target in the form that the receiver needs.
    pub(crate) fn target(&self) -> Target {
        let CopyRequest {
            sources,
            target,
            exact,
            ..
        } = &self.request;
        let landing = if *exact {
            Landing::Exact
        } else if sources.len() > 1 || target.path().ends_with(b"/") {
            Landing::Inside
        } else {
            Landing::Usual
        };
        Target {
            path: target.path().to_vec(),
            landing,
        }
    }

    /// Opens the list of paths, if one selects the entries.
    pub(crate) fn names(&self) -> Result<Option<PathList>, Error> {
        let list = self.request.list.as_ref();
        if list.is_some() && self.request.sources.len() > 1 {
            return Err(Fault::ListBase.into());
        }
        list.map(crate::list::List::open).transpose()
    }

    /// Returns the paths of all sources on their host.
    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        let paths = self.request.sources.iter().map(Place::path);
        paths.map(<[u8]>::to_vec).collect()
    }
}
