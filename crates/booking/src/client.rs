//! Asking a scheduler, from the command line and from copies that book.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use lighthaul_io::crypto::identity;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::Body;
use ureq::http::{Method, Response, StatusCode};

use crate::https::{Caller, Known};
use crate::word::{
    CalendarView, Change, Event, Health, Moment, NewOutage, NewReservation, OutageView, Page,
    Problem, Quote, Reservation, TopologyView, Why,
};

/// Somebody who asks one scheduler.
#[derive(Clone, Debug)]
pub struct Client {
    caller: Caller,
    url: String,
    token: Option<String>,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The scheduler said no.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// What is there does not show that it is the scheduler.
    #[error("the scheduler at {url} is not asked: {why}")]
    Untrusted {
        /// Where it is asked.
        url: String,
        /// Why not.
        why: String,
    },
    /// The scheduler cannot be reached.
    #[error("the scheduler at {url} cannot be asked: {why}")]
    Network {
        /// Where it is asked.
        url: String,
        /// Why not.
        why: String,
    },
    /// What is there speaks otherwise.
    #[error("what answers at {url} is no scheduler of this version: {why}")]
    Protocol {
        /// Where it is asked.
        url: String,
        /// What is wrong.
        why: String,
    },
}

/// Which reservations are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this owner.
    pub owner: Option<String>,
    /// In this state.
    pub state: Option<String>,
}

impl Client {
    /// Asks the scheduler at `url`, that is `known`, with `token`.
    pub fn new(url: &str, known: Known, token: Option<String>) -> Result<Self, Failure> {
        let url = url.trim_end_matches('/').to_owned();
        match Caller::new(known, PATIENCE) {
            Ok(caller) => Ok(Self { caller, url, token }),
            Err(why) => Err(Failure::Network {
                url,
                why: why.to_string(),
            }),
        }
    }

    /// Reserves; asked again if the answer is lost, without reserving twice.
    pub fn reserve(&self, request: &NewReservation) -> Result<Reservation, Failure> {
        let key = identity::token();
        let mut tries = 3;
        loop {
            tries -= 1;
            match self.send(Method::POST, "/v1/reservations", Some(&key), request) {
                Err(Failure::Network { .. }) if tries > 0 => {}
                result => return result,
            }
        }
    }

    /// What a request would be given.
    pub fn quote(&self, request: &NewReservation) -> Result<Quote, Failure> {
        self.send(Method::POST, "/v1/quotes", None, request)
    }

    /// One reservation.
    pub fn reservation(&self, id: u64) -> Result<Reservation, Failure> {
        self.get(&format!("/v1/reservations/{id}"))
    }

    /// A part of the list, behind reservation `after`.
    pub fn reservations(
        &self,
        filter: &Filter,
        after: Option<u64>,
    ) -> Result<Page<Reservation>, Failure> {
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

    /// Takes up what is held.
    pub fn commit(&self, id: u64, why: &str) -> Result<Reservation, Failure> {
        self.act(id, "commit", why)
    }

    /// Has circuits made.
    pub fn provision(&self, id: u64, why: &str) -> Result<Reservation, Failure> {
        self.act(id, "provision", why)
    }

    /// Leaves what is left of it to others.
    pub fn release(&self, id: u64, why: &str) -> Result<Reservation, Failure> {
        self.act(id, "release", why)
    }

    /// Makes it larger.
    pub fn extend(&self, id: u64, change: &Change) -> Result<Reservation, Failure> {
        self.send(
            Method::POST,
            &format!("/v1/reservations/{id}/extend"),
            None,
            change,
        )
    }

    /// Makes it smaller.
    pub fn shrink(&self, id: u64, change: &Change) -> Result<Reservation, Failure> {
        self.send(
            Method::POST,
            &format!("/v1/reservations/{id}/shrink"),
            None,
            change,
        )
    }

    /// Calls it off.
    pub fn cancel(&self, id: u64, why: &str) -> Result<Reservation, Failure> {
        self.send(
            Method::DELETE,
            &format!("/v1/reservations/{id}"),
            None,
            &because(why),
        )
    }

    /// Hosts and links.
    pub fn topology(&self) -> Result<TopologyView, Failure> {
        self.get("/v1/topology")
    }

    /// What is free of a link, and who has the rest.
    pub fn calendar(
        &self,
        link: &str,
        from: Moment,
        till: Moment,
    ) -> Result<CalendarView, Failure> {
        let link = percent(link);
        self.get(&format!(
            "/v1/links/{link}/calendar?from={from}&till={till}"
        ))
    }

    /// Says that a link is out.
    pub fn outage(&self, outage: &NewOutage) -> Result<OutageView, Failure> {
        self.send(Method::POST, "/v1/outages", None, outage)
    }

    /// Says that it is not.
    pub fn lift(&self, id: u64) -> Result<OutageView, Failure> {
        self.send(
            Method::DELETE,
            &format!("/v1/outages/{id}"),
            None,
            &because(""),
        )
    }

    /// How it is.
    pub fn health(&self) -> Result<Health, Failure> {
        self.get("/healthz")
    }

    /// By how many nanoseconds the scheduler's clock is ahead of ours, and how far that may be off: half of the shortest of five
    /// round trips.
    pub fn clock_offset(&self) -> Result<(i64, u64), Failure> {
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

    /// Changes behind `after`, as they happen; it ends when the connection does.
    pub fn events(
        &self,
        after: u64,
    ) -> Result<impl Iterator<Item = Result<Event, Failure>> + use<>, Failure> {
        let request = self.request(Method::GET, "/v1/events");
        let request = request.header("Last-Event-ID", after.to_string()).body(());
        let request = request.map_err(|e| self.protocol(&e))?;
        let response = self
            .caller
            .agent
            .run(request)
            .map_err(|e| self.network(&e))?;
        let response = self.judge(response)?;
        let lines = BufReader::new(response.into_body().into_reader()).lines();
        let url = self.url.clone();
        Ok(lines.filter_map(move |line| match line {
            Ok(line) => {
                let event = serde_json::from_str(line.strip_prefix("data:")?.trim());
                Some(event.map_err(|e| Failure::Protocol {
                    url: url.clone(),
                    why: e.to_string(),
                }))
            }
            Err(why) => Some(Err(Failure::Network {
                url: url.clone(),
                why: why.to_string(),
            })),
        }))
    }

    fn act(&self, id: u64, verb: &str, why: &str) -> Result<Reservation, Failure> {
        self.send(
            Method::POST,
            &format!("/v1/reservations/{id}/{verb}"),
            None,
            &because(why),
        )
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.request(Method::GET, path).body(());
        let request = request.map_err(|e| self.protocol(&e))?;
        let response = self
            .caller
            .agent
            .run(request)
            .map_err(|e| self.network(&e))?;
        self.read(response)
    }

    fn send<T: DeserializeOwned>(
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
        let body = serde_json::to_vec(body).map_err(|e| self.protocol(&e))?;
        let request = request.body(body).map_err(|e| self.protocol(&e))?;
        // DELETE with a reason has a body, which HTTP leaves open
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
        let mut response = self.judge(response)?;
        let body = response.body_mut().with_config().limit(BODY_MAX);
        body.read_json().map_err(|e| self.protocol(&e))
    }

    /// The response, if it is no problem.
    fn judge(&self, mut response: Response<Body>) -> Result<Response<Body>, Failure> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.body_mut().with_config().limit(BODY_MAX);
        match body.read_json::<Problem>() {
            Ok(problem) => Err(Failure::Problem(Box::new(problem))),
            Err(_) if status == StatusCode::NOT_FOUND => {
                Err(self.protocol(&"it does not know the request"))
            }
            Err(_) => Err(self.protocol(&format!("it answers {status}"))),
        }
    }

    fn network(&self, error: &ureq::Error) -> Failure {
        let url = self.url.clone();
        match self.caller.refused() {
            Some(why) => Failure::Untrusted { url, why },
            None => Failure::Network {
                url,
                why: error.to_string(),
            },
        }
    }

    fn protocol(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::Protocol {
            url: self.url.clone(),
            why: why.to_string(),
        }
    }
}

fn because(why: &str) -> Why {
    Why {
        why: why.to_owned(),
    }
}

/// `text` as a part of a URL (RFC 3986, 2.1).
fn percent(text: &str) -> String {
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

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer: a calendar of a busy month.
const BODY_MAX: u64 = 64 << 20;
