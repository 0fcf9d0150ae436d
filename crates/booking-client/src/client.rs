//! Client of a scheduler, for the command line, for copies that book, and for links of gateways.
//!
//! [`Client`] has one method for each operation of the REST interface and blocks until the
//! response. A reservation carries an idempotency key, so a request can be repeated without booking
//! twice. The token is sent only to a server that [`ServerTrust`] accepts, and never in clear text to another host.

use std::fmt::Write;
use std::io::BufReader;
use std::time::Duration;

use lighthaul_io::crypto::identity;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Method, Response, StatusCode};
use ureq::{Body, BodyReader};

use crate::clear_text::stays_private;
pub use crate::client_error::ClientError;
use crate::https::{HttpsClient, ServerTrust};
use crate::json::{
    CalendarView, Change, Health, NewOutage, NewReservation, OutageView, Page, Problem, Quote,
    Reason, Reservation, Timestamp, TopologyView,
};
use crate::patience::{Failure, patiently};

/// Client of one scheduler.
#[derive(Clone, Debug)]
pub struct Client {
    caller: HttpsClient,
    url: String,
    token: Option<String>,
}

/// Selection of reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Owner of the reservations to list.
    pub owner: Option<String>,
    /// State.
    pub state: Option<String>,
}

impl Client {
    /// Returns a client of the scheduler at `url`, which must be `known`. A token is refused for a URL without TLS, unless
    /// it is of this host.
    pub fn new(url: &str, known: ServerTrust, token: Option<String>) -> Result<Self, ClientError> {
        let url = url.trim_end_matches('/').to_owned();
        if token.is_some() && !stays_private(&url) {
            return Err(ClientError::ClearText { url });
        }
        match HttpsClient::new(known, TIMEOUT) {
            Ok(caller) => Ok(Self { caller, url, token }),
            Err(why) => Err(ClientError::Network {
                url,
                why: why.to_string(),
            }),
        }
    }

    /// Reserves capacity. Repeats the request if the response is lost, without reserving twice.
    pub fn reserve(&self, request: &NewReservation) -> Result<Reservation, ClientError> {
        self.reserve_once(request, &identity::token())
    }

    /// Reserves capacity with an idempotency key. A second call with the same key returns the reservation of the first.
    /// Repeats the request for 20 seconds while the scheduler is away, since it may have reserved already.
    pub fn reserve_once(
        &self,
        request: &NewReservation,
        key: &str,
    ) -> Result<Reservation, ClientError> {
        patiently(|| {
            let sent = self.try_send(Method::POST, "/v1/reservations", Some(key), request);
            sent.map_err(Failure::unless_limited)
        })
    }

    /// Returns the grant that a request would get.
    pub fn quote(&self, request: &NewReservation) -> Result<Quote, ClientError> {
        self.send(Method::POST, "/v1/quotes", None, request)
    }

    /// Returns a reservation.
    pub fn reservation(&self, id: u64) -> Result<Reservation, ClientError> {
        self.get(&format!("/v1/reservations/{id}"))
    }

    /// Returns a part of the list of reservations, after the number `after`.
    pub fn reservations(
        &self,
        filter: &Filter,
        after: Option<u64>,
    ) -> Result<Page<Reservation>, ClientError> {
        let mut path = "/v1/reservations?limit=100".to_owned();
        let after = after.map(|after| after.to_string());
        for (name, value) in [
            ("owner", &filter.owner),
            ("state", &filter.state),
            ("after", &after),
        ] {
            if let Some(value) = value {
                write!(path, "&{name}={}", percent(value)).ok();
            }
        }
        self.get(&path)
    }

    /// Commits a reservation.
    pub fn commit(&self, id: u64, why: &str) -> Result<Reservation, ClientError> {
        self.act(id, "commit", why)
    }

    /// Provisions the circuit of a reservation.
    pub fn provision(&self, id: u64, why: &str) -> Result<Reservation, ClientError> {
        self.act(id, "provision", why)
    }

    /// Releases the remaining capacity of a reservation.
    pub fn release(&self, id: u64, why: &str) -> Result<Reservation, ClientError> {
        self.act(id, "release", why)
    }

    /// Extends a reservation.
    pub fn extend(&self, id: u64, change: &Change) -> Result<Reservation, ClientError> {
        self.send(
            Method::POST,
            &format!("/v1/reservations/{id}/extend"),
            None,
            change,
        )
    }

    /// Shrinks a reservation.
    pub fn shrink(&self, id: u64, change: &Change) -> Result<Reservation, ClientError> {
        self.send(
            Method::POST,
            &format!("/v1/reservations/{id}/shrink"),
            None,
            change,
        )
    }

    /// Cancels a reservation.
    pub fn cancel(&self, id: u64, why: &str) -> Result<Reservation, ClientError> {
        self.send(
            Method::DELETE,
            &format!("/v1/reservations/{id}"),
            None,
            &reason(why),
        )
    }

    /// Returns the hosts, switches and links.
    pub fn topology(&self) -> Result<TopologyView, ClientError> {
        self.get("/v1/topology")
    }

    /// Returns the free and the booked capacity of a link.
    pub fn calendar(
        &self,
        link: &str,
        from: Timestamp,
        till: Timestamp,
    ) -> Result<CalendarView, ClientError> {
        let link = percent(link);
        self.get(&format!(
            "/v1/links/{link}/calendar?from={from}&till={till}"
        ))
    }

    /// Plans an outage.
    pub fn outage(&self, outage: &NewOutage) -> Result<OutageView, ClientError> {
        self.send(Method::POST, "/v1/outages", None, outage)
    }

    /// Returns the outages that have not ended.
    pub fn outages(&self) -> Result<Vec<OutageView>, ClientError> {
        self.get("/v1/outages")
    }

    /// Cancels or ends an outage.
    pub fn lift(&self, id: u64) -> Result<OutageView, ClientError> {
        self.send(
            Method::DELETE,
            &format!("/v1/outages/{id}"),
            None,
            &reason(""),
        )
    }

    /// Returns the status of the scheduler.
    pub fn health(&self) -> Result<Health, ClientError> {
        self.get("/healthz")
    }

    /// Returns the nanoseconds that the scheduler's clock is ahead of the local clock, and the possible error. The
    /// error is half of the shortest of five round trips.
    pub fn clock_offset(&self) -> Result<(i64, u64), ClientError> {
        let mut best: Option<(i64, u64)> = None;
        for _ in 0..5 {
            let (clock, before) = (Clock::start(), unix_nanos());
            let started = clock.now();
            let there = self.health()?.now.0;
            let half = u64::try_from(clock.now().since(started).as_nanos()).unwrap_or(u64::MAX) / 2;
            let here = before.saturating_add(half);
            let ahead = i64::try_from(i128::from(there) - i128::from(here)).unwrap_or(i64::MAX);
            if best.is_none_or(|(_, error)| half < error) {
                best = Some((ahead, half));
            }
        }
        Ok(best.unwrap_or_default())
    }

    /// Opens the stream of changes after `after`, or from now on, for a minute at most: a path that is lost is noticed
    /// then.
    pub(crate) fn open_events(
        &self,
        after: Option<u64>,
    ) -> Result<BufReader<BodyReader<'static>>, Failure> {
        let mut request = self.request(Method::GET, "/v1/events");
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after.to_string());
        }
        let request = request.body(());
        let request = request.map_err(|e| Failure::lasting(self.protocol(&e)))?;
        let agent = &self.caller.agent;
        let limited = agent
            .configure_request(request)
            .timeout_recv_body(Some(EVENTS_TIME));
        let response = agent.run(limited.build()).map_err(|e| self.network(&e))?;
        let body = self.check(response)?.into_body();
        Ok(BufReader::new(body.into_reader()))
    }

    fn act(&self, id: u64, verb: &str, why: &str) -> Result<Reservation, ClientError> {
        self.send(
            Method::POST,
            &format!("/v1/reservations/{id}/{verb}"),
            None,
            &reason(why),
        )
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.try_get(path).map_err(|failure| failure.error)
    }

    /// Reads something, and again after failures that may pass.
    pub(crate) fn read_patiently<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        patiently(|| self.try_get(path))
    }

    pub(crate) fn try_get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.request(Method::GET, path).body(());
        let response = self.run(request)?;
        self.read(response)
    }

    /// Sends a request without a body.
    fn run(
        &self,
        request: Result<ureq::http::Request<()>, ureq::http::Error>,
    ) -> Result<Response<Body>, Failure> {
        let request = request.map_err(|e| Failure::lasting(self.protocol(&e)))?;
        let response = self.caller.agent.run(request);
        response.map_err(|e| self.network(&e))
    }

    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let sent = self.try_send(method, path, key, body);
        sent.map_err(|failure| failure.error)
    }

    pub(crate) fn try_send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let mut request = self
            .request(method, path)
            .header("Content-Type", "application/json");
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let body = serde_json::to_vec(body).map_err(|e| Failure::lasting(self.protocol(&e)))?;
        let request = request.body(body);
        let request = request.map_err(|e| Failure::lasting(self.protocol(&e)))?;
        // DELETE has a body with the reason, which HTTP permits
        let agent = &self.caller.agent;
        let request = agent
            .configure_request(request)
            .allow_non_standard_methods(true)
            .build();
        let response = agent.run(request).map_err(|e| self.network(&e))?;
        self.read(response)
    }

    fn request(&self, method: Method, path: &str) -> ureq::http::request::Builder {
        let mut request = ureq::http::Request::builder().method(method);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        request.uri(format!("{}{path}", self.url))
    }

    fn read<T: DeserializeOwned>(&self, response: Response<Body>) -> Result<T, Failure> {
        let mut response = self.check(response)?;
        let body = response.body_mut().with_config().limit(BODY_MAX);
        body.read_json().map_err(|e| self.unread(&e))
    }

    /// Returns the failure for a body that could not be read.
    fn unread(&self, error: &ureq::Error) -> Failure {
        if is_malformed(error) {
            Failure::lasting(self.protocol(error))
        } else {
            self.network(error)
        }
    }

    /// Returns the response if it is a success, and its problem otherwise.
    fn check(&self, mut response: Response<Body>) -> Result<Response<Body>, Failure> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let wait = response.headers().get("retry-after");
        let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
        let body = response.body_mut().with_config().limit(BODY_MAX);
        let error = match body.read_json::<Problem>() {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            Err(why) if !is_malformed(&why) => return Err(self.network(&why)),
            Err(_) if status == StatusCode::NOT_FOUND => {
                self.protocol(&"it does not support the request")
            }
            Err(_) => self.protocol(&format!("it responds with {status}")),
        };
        let wait = wait.map(Duration::from_secs);
        Err(Failure::refusal(error, status.as_u16(), wait))
    }

    fn network(&self, error: &ureq::Error) -> Failure {
        let url = self.url.clone();
        if let Some(why) = self.caller.refused() {
            return Failure::lasting(ClientError::Untrusted { url, why });
        }
        // a server with TLS answers a plain request with an alert
        let is_tls = matches!(error, ureq::Error::Protocol(_)) && url.starts_with("http://");
        let why = if is_tls {
            "it uses TLS; use https://".to_owned()
        } else {
            error.to_string()
        };
        Failure {
            error: ClientError::Network { url, why },
            wait: None,
            may_pass: !is_tls && !matches!(error, ureq::Error::HostNotFound),
        }
    }

    /// Returns the failure of a thread that cannot be started.
    pub(crate) fn unstarted(&self, why: &std::io::Error) -> ClientError {
        ClientError::Network {
            url: self.url.clone(),
            why: format!("cannot start a thread: {why}"),
        }
    }

    pub(crate) fn protocol(&self, why: &dyn std::fmt::Display) -> ClientError {
        ClientError::Protocol {
            url: self.url.clone(),
            why: why.to_string(),
        }
    }
}

/// True if a body arrived, but is none of a scheduler.
fn is_malformed(error: &ureq::Error) -> bool {
    if let ureq::Error::Json(json) = error {
        !json.is_io()
    } else {
        matches!(error, ureq::Error::BodyExceedsLimit(_))
    }
}

fn reason(why: &str) -> Reason {
    Reason {
        why: why.to_owned(),
    }
}

/// Returns `text` percent-encoded for a URL (RFC 3986, section 2.1).
pub(crate) fn percent(text: &str) -> String {
    let mut out = String::new();
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
            out.push(char::from(octet));
        } else {
            write!(out, "%{octet:02X}").ok();
        }
    }
    out
}

/// Timeout of a response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest life of a connection that carries events.
const EVENTS_TIME: Duration = Duration::from_mins(1);
/// Maximum length of a response: the calendar of a busy month.
const BODY_MAX: u64 = 64 << 20;
