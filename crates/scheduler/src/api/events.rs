//! Changes of reservations as server-sent events (HTML Living Standard, section 9.2).
//!
//! A `Listener` is one client of `/v1/events`. It waits for a change of the books and reads the
//! events after the last one that it has examined. It sends the events that the client may see. The
//! number of an event is its id, so a client resumes with `Last-Event-ID` and misses none. If the books
//! have deleted one that the client has not read, the stream ends, and a resumption fails with status 410.
//! The credential is checked each second. A stream lasts an hour at most; clients
//! reconnect then.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use lighthaul_booking::books::{Books, Principal};
use lighthaul_booking_client::json::Event;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::{ApiError, InvalidInput};
use super::authenticated::{Authenticated, credential};
use super::listener_slots::ListenerSlot;
use super::state::ApiState;

/// Returns the routes of events.
pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(listen))
}

/// Stream changes of own reservations, or of all reservations for operators
#[utoipa::path(get, path = "/v1/events", params(
    ("Last-Event-ID" = Option<u64>, Header, description = "Number of the last event received; the stream continues after it, or fails with 410 if an event after it is no longer kept [default: the latest event]")
), responses((status = 200, description = "Events, until the client disconnects", body = Event, content_type = "text/event-stream"), ApiError), security(("bearer" = [])))]
async fn listen(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, ApiError> {
    let after = headers.get("Last-Event-ID").map(|id| {
        let id = id.to_str().ok().and_then(|id| id.parse().ok());
        id.ok_or_else(|| ApiError::unreadable(&InvalidInput::LastEventId))
    });
    let is_new = after.is_none();
    // subscribes first, so that no change is missed while the books are read
    let changes = state.subscribe();
    let after = match after {
        Some(after) => {
            let (after, reader) = (after?, principal.clone());
            let check = move |books: &Books| books.check_events(&reader, after);
            state.with_books(check).await?;
            after
        }
        None => state.with_books(Books::seq).await?,
    };
    let slot = state.slots().take(&principal.name);
    let slot = slot.map_err(|why| ApiError::unavailable(why.to_string()))?;
    let listener = Listener {
        state,
        credential: credential(&headers),
        checked: Instant::now(),
        principal,
        after,
        changes,
        waiting: VecDeque::new(),
        till: Instant::now() + LONGEST,
        _slot: slot,
    };
    // a client that loses the connection before the first event continues there
    let begin = is_new.then(|| Ok(sse::Event::default().id(after.to_string())));
    let events = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Ok(Sse::new(stream::iter(begin).chain(events)).keep_alive(KeepAlive::default()))
}

/// Client of an event stream.
#[derive(Debug)]
struct Listener {
    state: ApiState,
    /// Credential of the request.
    credential: Option<String>,
    /// Time at which the credential was last checked.
    checked: Instant,
    /// Identity and role at that time.
    principal: Principal,
    /// Number of the last event that was examined.
    after: u64,
    changes: watch::Receiver<u64>,
    waiting: VecDeque<Event>,
    /// End of the stream. The client reconnects to continue.
    till: Instant,
    _slot: ListenerSlot,
}

impl Listener {
    /// Returns the next event that the client may see. Returns `None` when the stream ends: after
    /// [`LONGEST`], if the books cannot be read or have deleted an unread event, or if the credential is no longer valid.
    async fn next(&mut self) -> Option<sse::Event> {
        while Instant::now() < self.till {
            self.check_credential().await?;
            if let Some(event) = self.waiting.pop_front() {
                return write(&event);
            }
            self.changes.borrow_and_update();
            let (principal, after) = (self.principal.clone(), self.after);
            let happened = self
                .state
                .with_books(move |books| books.events_since(&principal, after, EVENTS_MAX));
            let happened = self.limited(happened).await.ok()?;
            if happened.seq == after {
                // another instance may write without notifying this instance
                timeout(LOOK, self.changes.changed()).await.ok();
            }
            self.after = happened.seq;
            self.waiting.extend(happened.events);
        }
        None
    }

    /// Runs `work` within the limit of concurrent requests of the identity.
    async fn limited<T>(&self, work: impl Future<Output = T>) -> T {
        let limits = self.state.concurrency();
        limits.with_name(&self.principal.name, work).await
    }

    /// Checks the credential again after [`LOOK`], so that changed roles and expired tokens take
    /// effect.
    async fn check_credential(&mut self) -> Option<()> {
        if self.checked.elapsed() < LOOK {
            return Some(());
        }
        let principal = self.state.authenticate(self.credential.clone());
        let principal = self.limited(principal).await.ok()?;
        self.checked = Instant::now();
        if principal.name != self.principal.name {
            return None;
        }
        if principal != self.principal {
            self.waiting
                .retain(|event| principal.may(&event.reservation.owner));
            self.principal = principal;
        }
        Some(())
    }
}

/// Returns the event in its wire format.
fn write(event: &Event) -> Option<sse::Event> {
    let data = serde_json::to_string(event).ok()?;
    let id = event.seq.to_string();
    Some(
        sse::Event::default()
            .id(id)
            .event(event.kind.name())
            .data(data),
    )
}

/// Maximum number of events that are read at once.
const EVENTS_MAX: usize = 100;
/// Maximum duration of an event stream.
const LONGEST: Duration = Duration::from_hours(1);
/// Interval at which the books and the credential are checked.
const LOOK: Duration = Duration::from_secs(1);
