//! Changes as they happen, as server-sent events (HTML Living Standard, 9.2).

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
use crate::word::Event;

/// Listening to changes.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new().routes(routes!(listen))
}

/// Hear of changes of one's reservations, or of all as an operator
#[utoipa::path(get, path = "/v1/events", params(
    ("Last-Event-ID" = Option<u64>, Header, description = "Go on behind this one; with what comes, if it is left out")
), responses((status = 200, description = "Events, until the caller leaves", body = Event, content_type = "text/event-stream"), Refused), security(("bearer" = [])))]
async fn listen(
    State(desk): State<Desk>,
    Caller(who): Caller,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Refused> {
    let after = headers.get("Last-Event-ID").map(|id| {
        let id = id.to_str().ok().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Refused::unreadable(&"a Last-Event-ID is the number of an event"))
    });
    // what changes while the books are asked is heard of
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

/// Somebody who hears of changes.
#[derive(Debug)]
struct Listener {
    desk: Desk,
    /// The credential that the caller has shown.
    credential: Option<String>,
    /// The time at which it was last judged.
    judged: Instant,
    /// The identity and role that it stood for then.
    who: Who,
    /// The number of the last event that was looked at.
    after: u64,
    changes: watch::Receiver<u64>,
    waiting: VecDeque<Event>,
    /// The end of the stream; a client that continues asks again.
    till: Instant,
    _seat: Seat,
}

impl Listener {
    /// The next event that is theirs to hear; it ends when it is long, the books cannot be read, or the credential does not
    /// count any more.
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
                // another instance may write what nobody here hears of
                timeout(LOOK, self.changes.changed()).await.ok();
            }
            self.after = happened.seq;
            self.waiting.extend(happened.events);
        }
        None
    }

    /// Judges the credential again if that was not just done: changed roles and times hold for listeners, too.
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

/// An event on the wire.
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

/// How many events are read at once.
const EVENTS_MAX: usize = 100;
/// How long somebody hears of changes without asking again.
const LONGEST: Duration = Duration::from_hours(1);
/// Time after which the books and the credential are looked at again.
const LOOK: Duration = Duration::from_secs(1);
