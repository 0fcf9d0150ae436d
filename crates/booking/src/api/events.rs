//! Changes of reservations as server-sent events (HTML Living Standard, section 9.2).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, credential};
use super::desk::Desk;
use super::refused::Refused;
use super::seats::Seat;
use crate::books::{Books, Who};
use crate::json::Event;

/// Returns the routes of events.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new().routes(routes!(listen))
}

/// Stream changes of own reservations, or of all reservations for operators
#[utoipa::path(get, path = "/v1/events", params(
    ("Last-Event-ID" = Option<u64>, Header, description = "Number of the last event received; the stream continues after it [default: the latest event]")
), responses((status = 200, description = "Events, until the client disconnects", body = Event, content_type = "text/event-stream"), Refused), security(("bearer" = [])))]
async fn listen(
    State(desk): State<Desk>,
    Caller(who): Caller,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Refused> {
    let after = headers.get("Last-Event-ID").map(|id| {
        let id = id.to_str().ok().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Refused::unreadable(&"Last-Event-ID must be the number of an event"))
    });
    // subscribes first, so that no change is missed while the books are read
    let changes = desk.listen();
    let after = match after {
        Some(after) => after?,
        None => desk.ask(Books::seq).await?,
    };
    let seat = desk.seats().take(&who.name);
    let seat = seat.map_err(|why| Refused::unavailable(why.to_owned()))?;
    let listener = Listener {
        desk,
        credential: credential(&headers),
        judged: Instant::now(),
        who,
        after,
        changes,
        waiting: VecDeque::new(),
        till: Instant::now() + LONGEST,
        _seat: seat,
    };
    let events = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// Client of an event stream.
#[derive(Debug)]
struct Listener {
    desk: Desk,
    /// Credential of the request.
    credential: Option<String>,
    /// Time at which the credential was last checked.
    judged: Instant,
    /// Identity and role at that time.
    who: Who,
    /// Number of the last event that was examined.
    after: u64,
    changes: watch::Receiver<u64>,
    waiting: VecDeque<Event>,
    /// End of the stream. The client reconnects to continue.
    till: Instant,
    _seat: Seat,
}

impl Listener {
    /// Returns the next event that the client may see. Returns `None` when the stream ends: after
    /// [`LONGEST`], if the books cannot be read, or if the credential is no longer valid.
    async fn next(&mut self) -> Option<sse::Event> {
        while Instant::now() < self.till {
            self.judge().await?;
            if let Some(event) = self.waiting.pop_front() {
                return write(&event);
            }
            self.changes.borrow_and_update();
            let (who, after) = (self.who.clone(), self.after);
            let happened = self
                .desk
                .ask(move |books| books.events_since(&who, after, EVENTS_MAX));
            let happened = happened.await.ok()?;
            if happened.seq == after {
                // another instance may write without notifying this one
                timeout(LOOK, self.changes.changed()).await.ok();
            }
            self.after = happened.seq;
            self.waiting.extend(happened.events);
        }
        None
    }

    /// Checks the credential again after [`LOOK`], so that changed roles and expired tokens take
    /// effect.
    async fn judge(&mut self) -> Option<()> {
        if self.judged.elapsed() < LOOK {
            return Some(());
        }
        let who = self.desk.judge(self.credential.clone()).await.ok()?;
        self.judged = Instant::now();
        if who.name != self.who.name {
            return None;
        }
        if who != self.who {
            self.waiting
                .retain(|event| who.may(&event.reservation.owner));
            self.who = who;
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
