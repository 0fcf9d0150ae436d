//! Requests over HTTP with retries, and with limits on time and on the size of answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{HeaderMap, Method, StatusCode};
use lighthaul_session::error::Error;
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, HttpResponseBody, ReqwestConnector,
};
use object_store::{Certificate, ClientOptions};
use reqwest::Url;
use reqwest::redirect::Policy;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::body::Body;
use crate::call_error::{CallError, Reason};
use crate::environment;

/// Client of one server.
#[derive(Debug)]
pub(crate) struct Client {
    http: HttpClient,
    patience: Patience,
    /// Seats of requests that run at a time.
    seats: Arc<Semaphore>,
}

/// Limits of requests.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Number of retries of each request.
    pub retries: u32,
    /// Time without progress after which a request has failed.
    pub stall: Duration,
    /// Follows redirects of web servers.
    pub redirects: bool,
    /// Maximum number of requests at a time; others wait. An answer counts until all of it has come.
    pub requests_max: usize,
}

/// Request before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Maximum number of bytes of the answer.
    pub(crate) limit: u64,
}

/// Answer to a request that has succeeded.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// Bytes of a body as they come.
pub(crate) type Chunks = BoxStream<'static, Result<Bytes, CallError>>;

impl Client {
    pub(crate) fn new(patience: Patience) -> Result<Self, Error> {
        // reqwest uses the provider of the process
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let options = patience.options()?;
        let http = ReqwestConnector::default().connect(&options);
        let failed = |error| CallError::of_store(&error).during("cannot use HTTP");
        Ok(Self {
            http: http.map_err(failed)?,
            seats: patience.seats(),
            patience,
        })
    }

    /// Returns a client of a web server. It follows redirects only if `patience` says so, and none that leaves TLS. The
    /// answer to a refused redirect is the redirect.
    pub(crate) fn of_web(patience: Patience) -> Result<Self, Error> {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let failed =
            |error: reqwest::Error| CallError::of_network(&error).during("cannot use HTTP");
        let authorities = match bundle()? {
            Some((path, pem)) => reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| unusable(&path, &error.to_string()))?,
            None => Vec::new(),
        };
        let client = reqwest::Client::builder()
            .user_agent(concat!("lighthaul/", env!("CARGO_PKG_VERSION")))
            .tls_certs_merge(authorities)
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT.min(patience.stall))
            .read_timeout(patience.stall * 2)
            .pool_max_idle_per_host(CONNECTIONS_MAX)
            .redirect(Policy::custom(move |redirect| {
                let left_tls =
                    |url: &Url| url.scheme() == "https" && redirect.url().scheme() != "https";
                let is_bad = redirect.previous().iter().any(left_tls);
                if patience.redirects && !is_bad && redirect.previous().len() <= REDIRECTS_MAX {
                    redirect.follow()
                } else {
                    redirect.stop()
                }
            }));
        Ok(Self {
            http: HttpClient::new(client.build().map_err(failed)?),
            seats: patience.seats(),
            patience,
        })
    }

    /// Returns the pauses between attempts.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let retries = self.patience.retries.min(RETRIES_MAX);
        (0..retries).map(|nth| (PAUSE * 2_u32.pow(nth)).min(PAUSE_MAX))
    }

    /// Sends a request once. Returns the head of the answer, and its body as it comes. Answers without success are passed
    /// to `failure`.
    pub(crate) async fn open(
        &self,
        request: HttpRequest,
        failure: impl Fn(StatusCode, &HeaderMap, &str) -> CallError + Send,
    ) -> Result<(StatusCode, HeaderMap, Chunks), CallError> {
        // the wait for a seat is no silence of the store
        let seat = Arc::clone(&self.seats).acquire_owned().await;
        let seat = seat.map_err(|_| CallError::new(Reason::Broken, "the client has ended"))?;
        // a slow path takes long for the body of a request
        let bytes = request.body().content_length() as u64;
        let patience = self.patience.stall + Duration::from_secs(bytes / SLOWEST);
        let answered = timeout(patience, self.http.execute(request)).await;
        let answered = answered.map_err(|_| self.silent())?;
        let answered = answered.map_err(|error| CallError::of_network(&error))?;
        let (head, body) = answered.into_parts();
        let mut chunks = chunks(body, seat);
        if head.status.is_success() {
            return Ok((head.status, head.headers, chunks));
        }
        let body = self
            .collect(&mut chunks, (0, TEXT_MAX))
            .await
            .unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        Err(failure(head.status, &head.headers, &text))
    }

    /// Sends a request once, and takes an answer of at most `limit` bytes.
    pub(crate) async fn send(
        &self,
        request: HttpRequest,
        limit: u64,
        failure: impl Fn(StatusCode, &HeaderMap, &str) -> CallError + Send,
    ) -> Result<Answer, CallError> {
        let (_, headers, mut chunks) = self.open(request, failure).await?;
        let body = self
            .collect(&mut chunks, (length(&headers).unwrap_or(0), limit))
            .await?;
        Ok(Answer { headers, body })
    }

    /// Takes the rest of a body, which has about `expected` bytes, and not more than `limit`.
    async fn collect(
        &self,
        chunks: &mut Chunks,
        (expected, limit): (u64, u64),
    ) -> Result<Body, CallError> {
        let room = usize::try_from(expected.min(limit)).unwrap_or(0);
        let mut body = Body::with_room(room);
        while let Some(chunk) = self.next(chunks).await? {
            if (body.len() + chunk.len()) as u64 > limit {
                let text = format!("the store sends more than the {limit} bytes that it should");
                return Err(CallError::new(Reason::Broken, text));
            }
            body.extend(&chunk);
        }
        Ok(body)
    }

    /// Takes the next bytes of a body.
    pub(crate) async fn next(&self, chunks: &mut Chunks) -> Result<Option<Bytes>, CallError> {
        let next = timeout(self.patience.stall, chunks.next()).await;
        next.map_err(|_| self.silent())?.transpose()
    }

    fn silent(&self) -> CallError {
        let text = format!("no answer within {} s", self.patience.stall.as_secs());
        CallError::new(Reason::Network, text)
    }
}

/// Waits before the next attempt, if the failure passes and there is another attempt.
pub async fn retry(
    error: CallError,
    pauses: &mut (impl Iterator<Item = Duration> + Send),
) -> Result<(), CallError> {
    match pauses.next().filter(|_| error.is_passing()) {
        Some(pause) => {
            sleep(pause).await;
            Ok(())
        }
        None => Err(error),
    }
}

impl Patience {
    /// Returns seats for the requests that may run at a time.
    fn seats(self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(
            self.requests_max.min(Semaphore::MAX_PERMITS),
        ))
    }

    /// Returns the options of clients. They do not limit the time of a request, which may have a large body.
    pub(crate) fn options(self) -> Result<ClientOptions, Error> {
        let mut options = ClientOptions::new();
        for authority in authorities()? {
            options = options.with_root_certificate(authority);
        }
        Ok(options
            .with_allow_http(true)
            .with_http1_only()
            .with_timeout_disabled()
            .with_connect_timeout(CONNECT_TIMEOUT.min(self.stall))
            .with_pool_max_idle_per_host(CONNECTIONS_MAX))
    }
}

/// Returns additional CA certificates for TLS.
fn authorities() -> Result<Vec<Certificate>, Error> {
    let Some((path, pem)) = bundle()? else {
        return Ok(Vec::new());
    };
    let found = Certificate::from_pem_bundle(&pem);
    let found = found.map_err(|error| unusable(&path, &error.to_string()))?;
    if found.is_empty() {
        return Err(unusable(&path, "it has no certificate in PEM"));
    }
    Ok(found)
}

/// Returns the path and the contents of the file with additional CA certificates.
fn bundle() -> Result<Option<(String, Vec<u8>)>, Error> {
    let Some(path) = environment::text("AWS_CA_BUNDLE") else {
        return Ok(None);
    };
    let pem = std::fs::read(&path).map_err(|error| unusable(&path, &error.to_string()))?;
    Ok(Some((path, pem)))
}

fn unusable(path: &str, why: &str) -> Error {
    let why = why.split(" (os error").next().unwrap_or(why).to_lowercase();
    CallError::new(Reason::Unsupported, why).during(format!("cannot use AWS_CA_BUNDLE {path}"))
}

impl Call {
    pub(crate) fn new(method: Method, url: String) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            limit: TEXT_MAX,
        }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Result<Self, CallError> {
        let broken = |_| CallError::new(Reason::Unsupported, format!("{name} cannot be {value:?}"));
        self.headers.insert(name, value.parse().map_err(broken)?);
        Ok(self)
    }

    /// Returns the request, which is not signed yet.
    pub(crate) fn request(&self) -> Result<HttpRequest, CallError> {
        let mut request = http::Request::builder()
            .method(self.method.clone())
            .uri(&self.url)
            .body(HttpRequestBody::from(self.body.clone()))
            .map_err(|error| CallError::new(Reason::Unsupported, error.to_string()))?;
        *request.headers_mut() = self.headers.clone();
        Ok(request)
    }
}

/// Returns the bytes of a body as they come. The seat is free at their end.
fn chunks(body: HttpResponseBody, seat: OwnedSemaphorePermit) -> Chunks {
    let chunks = body.bytes_stream();
    let chunks = chunks.map(move |chunk| {
        let _held = &seat;
        chunk.map_err(|error| CallError::of_network(&error))
    });
    chunks.boxed()
}

/// Returns the length in the headers, if there is one.
pub(crate) fn length(headers: &HeaderMap) -> Option<u64> {
    let length = headers
        .get("content-length")
        .and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse().ok())
}

/// Maximum number of bytes of an answer that is no object.
const TEXT_MAX: u64 = 16 << 20;
/// Maximum number of retries of one request.
const RETRIES_MAX: u32 = 30;
/// First pause before a retry; each one after it is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause before a retry.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Bytes a second below which a body is too slow.
const SLOWEST: u64 = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most redirects of a request.
const REDIRECTS_MAX: usize = 10;
/// Maximum number of idle connections.
const CONNECTIONS_MAX: usize = 64;
