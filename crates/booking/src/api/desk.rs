//! What every request is answered from.

use std::sync::Arc;

use lighthaul_io::host::clock::{Clock, unix_nanos};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::metrics::Metrics;
use super::refused::Refused;
use super::seats::Seats;
use crate::books::{Books, Standing, Who};
use crate::error::Result;
use crate::identity::Gate;
use crate::identity::limits::Limits;
use crate::word::{Moment, OutageView, Reservation};

/// The books, and who may ask for what in them.
#[derive(Clone, Debug)]
pub(crate) struct Desk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    books: Arc<Books>,
    gate: Gate,
    limits: Limits,
    /// Those of addresses whose tokens are unknown, so that strangers take no place of a name.
    strangers: Limits,
    clock: Clock,
    metrics: Metrics,
    /// How often something has changed.
    changes: watch::Receiver<u64>,
    seats: Seats,
}

impl Desk {
    /// A desk before the gate, that answers each name so many questions a second.
    pub(crate) fn new(books: Arc<Books>, gate: Gate, per_second: u32) -> Self {
        let (sender, changes) = watch::channel(0_u64);
        books.listen(move || sender.send_modify(|count| *count = count.wrapping_add(1)));
        Self(Arc::new(Inner {
            books,
            gate,
            limits: Limits::new(per_second),
            strangers: Limits::new(per_second),
            clock: Clock::start(),
            metrics: Metrics::new(),
            changes,
            seats: Seats::new(LISTENERS_MAX, LISTENERS_EACH),
        }))
    }

    /// What `work` finds in the books. They are written to disk as it goes, so that it takes a thread of its own.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Books) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Refused> {
        let books = Arc::clone(&self.0.books);
        match spawn_blocking(move || work(&books)).await {
            Ok(answer) => answer.map_err(Refused::from),
            Err(_) => Err(Refused::fault()),
        }
    }

    /// The same for what changes the books, which is noted in the log: who did what to what, and what came of it.
    pub(crate) async fn change<T: Changed + Send + 'static>(
        &self,
        who: Who,
        what: String,
        work: impl FnOnce(&Books, &Who) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Refused> {
        let by = who.clone();
        let result = self.ask(move |books| work(books, &by)).await;
        match &result {
            Ok(changed) => {
                let id = changed.id();
                info!(target: AUDIT, who = who.name, role = %who.role, what, id, "done");
                self.0.metrics.change("made");
            }
            Err(why) => {
                let why = why.detail();
                warn!(target: AUDIT, who = who.name, role = %who.role, what, why, "refused");
                self.0.metrics.change("refused");
            }
        }
        result
    }

    /// Hears of changes from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.0.changes.clone()
    }

    /// What was known of the books a moment ago, from memory.
    pub(crate) fn standing(&self) -> Standing {
        self.0.books.standing()
    }

    /// Who shows `authorization`.
    pub(crate) async fn judge(
        &self,
        authorization: Option<String>,
    ) -> std::result::Result<Who, Refused> {
        let desk = Arc::clone(&self.0);
        let now = unix_nanos() / 1_000_000_000;
        let judged = spawn_blocking(move || desk.gate.judge(authorization.as_deref(), now));
        match judged.await {
            Ok(judged) => judged.map_err(Refused::from),
            Err(_) => Err(Refused::fault()),
        }
    }

    /// Takes one of the questions that `name` has.
    pub(crate) fn take(&self, name: &str) -> std::result::Result<(), Refused> {
        self.0
            .limits
            .take(name, self.0.clock.now())
            .map_err(Refused::too_often)
    }

    /// Takes one of the questions that an address has whose token is unknown.
    pub(crate) fn take_of_stranger(&self, address: &str) -> std::result::Result<(), Refused> {
        self.0
            .strangers
            .take(address, self.0.clock.now())
            .map_err(Refused::too_often)
    }

    /// Seats for those who hear of changes.
    pub(crate) fn seats(&self) -> &Seats {
        &self.0.seats
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// What time it is.
    pub(crate) fn now() -> Moment {
        Moment(unix_nanos())
    }
}

/// What somebody has changed.
pub(crate) trait Changed {
    /// Its number.
    fn id(&self) -> u64;
}

impl Changed for Reservation {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Changed for OutageView {
    fn id(&self) -> u64 {
        self.id
    }
}

/// What lines of the log are about that say who changed what.
const AUDIT: &str = "lighthaul_audit";
/// How many may hear of changes at once, and under one name.
const LISTENERS_MAX: usize = 128;
const LISTENERS_EACH: usize = 16;
