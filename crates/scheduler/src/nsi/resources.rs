//! Reservations of the books as circuits of NSI.
//!
//! A circuit is one reservation for each direction, with a constant rate from start to end. An
//! identity has the rights of a user here, whatever its role elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lighthaul_booking::books::{Books, Filter, Principal};
use lighthaul_booking::error::{Error, QuotaError, RequestError};
use lighthaul_booking_client::json::{
    Bps, FlowAt, IsoDuration, LinkView, NewReservation, Provision, Reservation, Shape, Timestamp,
};
use lighthaul_booking_client::reservation::{ReservationState, Verb, WHY_MAX, cut};
use lighthaul_booking_client::role::Role;
use lighthaul_calendar::Refusal as CalendarRefusal;
use lighthaul_circuit::flow::Flow;
use lighthaul_nsi::message::ErrorId;
use lighthaul_nsi::provider::{Circuit, Committed, Hold, Port, Refusal, Resources, Status};

/// Books that make circuits.
#[derive(Debug)]
pub struct BookResources {
    books: Arc<Books>,
    /// Reason in the journal, by which the provider knows its reservations again.
    why: String,
}

impl BookResources {
    /// Returns the circuits of `books` for the provider with the URN `nsa`.
    pub fn new(books: Arc<Books>, nsa: &str) -> Self {
        let why = cut(&format!("{WHY} to {nsa}"), WHY_MAX);
        Self { books, why }
    }

    /// Returns true if this provider committed a reservation that has not ended.
    fn is_own(&self, reservation: &Reservation) -> bool {
        // earlier versions named no provider
        let is_reason = |why: &str| why == self.why || why == WHY;
        let mut journal = reservation.journal.iter();
        !reservation.state.is_final()
            && journal.any(|line| {
                line.verb == Verb::Commit && line.who == reservation.owner && is_reason(&line.why)
            })
    }

    /// Reserves one direction, and checks that it has the whole rate for the whole time.
    fn hold_one(
        &self,
        principal: &Principal,
        key: &str,
        circuit: &Circuit,
        new: &NewReservation,
    ) -> Result<Reservation, Refusal> {
        let made = self
            .books
            .reserve(principal, new, Some(key))
            .map_err(refusal)?;
        let is_whole = made
            .steps
            .iter()
            .all(|step| Some(Bps(step.rate_bps)) == new.rate_max);
        let ends = made.steps.first().zip(made.steps.last());
        let is_on_time = ends
            .is_some_and(|(first, last)| first.from == circuit.start && last.till == circuit.end);
        if is_whole && is_on_time {
            return Ok(made);
        }
        self.books
            .terminate(principal, made.id, "it has another rate or time")
            .map_err(refusal)?;
        let text =
            "the links have no channels for exactly this rate and time: send another capacity";
        Err(refused(ErrorId::CapacityUnavailable, text))
    }

    /// Returns the cheapest links that lead from each node of `nodes` to the next node.
    fn along(&self, nodes: &[&String]) -> Result<Vec<String>, Refusal> {
        let links = self.books.topology().map_err(refusal)?.links;
        let parts = nodes
            .windows(2)
            .map(|pair| cheapest(&links, pair[0], pair[1]));
        let parts: Option<Vec<Vec<String>>> = parts.collect();
        let text = "no links lead along the explicit route: send another, or none";
        let parts = parts.ok_or_else(|| refused(ErrorId::NoPath, text))?;
        Ok(parts.concat())
    }

    /// Returns the links back along the nodes of a path.
    fn back(&self, path: &[String]) -> Result<Vec<String>, Refusal> {
        let links = self.books.topology().map_err(refusal)?.links;
        let named = |name: &String| links.iter().find(|link| link.name == *name);
        let back = path.iter().rev().map(|name| {
            let there: &LinkView = named(name)?;
            let mut back = links.iter();
            let back = back.find(|link| link.from == there.to && link.to == there.from)?;
            Some(back.name.clone())
        });
        let back: Option<Vec<String>> = back.collect();
        let text = "a link of the path has no link back: leave symmetricPath out";
        back.ok_or_else(|| refused(ErrorId::NoPath, text))
    }

    fn each(
        &self,
        owner: &str,
        reservations: &[u64],
        act: impl Fn(&Books, &Principal, &Reservation) -> Result<(), Error>,
    ) -> Result<(), Refusal> {
        let principal = Principal::new(owner, Role::User);
        for id in reservations {
            let reservation = self.books.get(&principal, *id).map_err(refusal)?;
            act(&self.books, &principal, &reservation).map_err(refusal)?;
        }
        Ok(())
    }
}

impl Resources for BookResources {
    fn hold(&self, owner: &str, key: &str, circuit: &Circuit) -> Result<Hold, Refusal> {
        let principal = Principal::requester(owner);
        let mut new = request(circuit, (&circuit.from, &circuit.to))?;
        if !circuit.via.is_empty() {
            let nodes = [&circuit.from.node].into_iter().chain(&circuit.via);
            let nodes: Vec<&String> = nodes.chain([&circuit.to.node]).collect();
            let path = self.along(&nodes)?;
            (new.path, new.from, new.to) = (Some(path), None, None);
        }
        let there = self.hold_one(&principal, &format!("nsi {key} there"), circuit, &new)?;
        let mut hold = Hold {
            reservations: vec![there.id],
            till: there.hold_till.unwrap_or(there.created),
        };
        if !circuit.is_bidirectional {
            return Ok(hold);
        }
        let mut new = request(circuit, (&circuit.to, &circuit.from))?;
        // a route holds for both directions
        let path = (circuit.is_symmetric || !circuit.via.is_empty())
            .then(|| self.back(&there.path))
            .transpose();
        let back = path.and_then(|path| {
            if path.is_some() {
                (new.path, new.from, new.to) = (path, None, None);
            }
            self.hold_one(&principal, &format!("nsi {key} back"), circuit, &new)
        });
        match back {
            Ok(back) => {
                hold.reservations.push(back.id);
                Ok(hold)
            }
            Err(why) => {
                // after a temporary fault the same key finds the first direction again
                if !why.is_temporary {
                    self.end(owner, &hold.reservations)?;
                }
                Err(why)
            }
        }
    }

    fn commit(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal> {
        self.each(owner, reservations, |books, principal, reservation| {
            if matches!(
                reservation.state,
                ReservationState::Committed
                    | ReservationState::Provisioned
                    | ReservationState::Active
            ) {
                return Ok(());
            }
            books.commit(principal, reservation.id, &self.why).map(drop)
        })
    }

    fn provision(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal> {
        self.each(owner, reservations, |books, principal, reservation| {
            if matches!(
                reservation.state,
                ReservationState::Provisioned | ReservationState::Active
            ) {
                return Ok(());
            }
            books
                .provision(principal, reservation.id, &self.why)
                .map(drop)
        })
    }

    fn release(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal> {
        self.each(owner, reservations, |books, principal, reservation| {
            if !matches!(
                reservation.state,
                ReservationState::Provisioned | ReservationState::Active
            ) {
                return Ok(());
            }
            books
                .deprovision(principal, reservation.id, &self.why)
                .map(drop)
        })
    }

    fn end(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal> {
        for id in reservations {
            let ended = self.each(owner, &[*id], |books, principal, reservation| {
                if reservation.state.is_final() {
                    return Ok(());
                }
                books
                    .terminate(principal, reservation.id, &self.why)
                    .map(drop)
            });
            match ended {
                // the history of the books is shorter than that of connections
                Err(why) if why.id == ErrorId::ConnectionGone => {}
                ended => ended?,
            }
        }
        Ok(())
    }

    fn status(&self, owner: &str, reservations: &[u64]) -> Result<Status, Refusal> {
        let principal = Principal::new(owner, Role::User);
        let mut status = Status::Active;
        for id in reservations {
            match self.books.look(&principal, *id, direction).map_err(refusal) {
                Err(why) if why.id == ErrorId::ConnectionGone => return Ok(Status::Missing),
                Err(why) => return Err(why),
                Ok(Status::Active) => {}
                Ok(Status::Idle) => status = Status::Idle,
                Ok(over) => return Ok(over),
            }
        }
        Ok(status)
    }

    fn committed(&self) -> Result<Vec<Committed>, Refusal> {
        let operator = Principal::new("nsi", Role::Operator);
        let (mut committed, mut after) = (Vec::new(), Some(0));
        while let Some(last) = after {
            let part = (last, usize::MAX);
            let page = self.books.list(&operator, &Filter::default(), part);
            let page = page.map_err(refusal)?;
            let own = page.items.into_iter().filter(|one| self.is_own(one));
            committed.extend(own.map(|one| Committed {
                owner: one.owner,
                id: one.id,
            }));
            after = page.next;
        }
        Ok(committed)
    }

    fn missing(
        &self,
        owner: &str,
        reservations: &[u64],
        circuit: &Circuit,
    ) -> Result<Vec<u64>, Refusal> {
        let principal = Principal::new(owner, Role::User);
        let directions = [(&circuit.from, &circuit.to), (&circuit.to, &circuit.from)];
        let mut missing = Vec::new();
        for (id, ports) in reservations.iter().zip(directions) {
            let wanted = request(circuit, ports)?;
            // older books give numbers again
            let is_it = |reservation: &Reservation| is_of(&wanted, &reservation.request);
            match self.books.look(&principal, *id, is_it).map_err(refusal) {
                Err(why) if why.id == ErrorId::ConnectionGone => missing.push(*id),
                Ok(false) => missing.push(*id),
                Ok(true) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(missing)
    }
}

/// Returns true if a reservation was requested for the circuit of `wanted`. A request that names its links names no nodes.
fn is_of(wanted: &NewReservation, request: &NewReservation) -> bool {
    let nodes = |one: &NewReservation| (one.from.clone(), one.to.clone());
    let facts = |one: &NewReservation| (one.start, one.rate_max, one.flow.clone());
    facts(wanted) == facts(request) && (request.path.is_some() || nodes(wanted) == nodes(request))
}

/// Returns the rate of a circuit.
const fn rate(circuit: &Circuit) -> Bps {
    Bps(circuit.rate_mbps.saturating_mul(1_000_000))
}

/// Returns the status of one direction.
fn direction(reservation: &Reservation) -> Status {
    match reservation.state {
        ReservationState::Active => Status::Active,
        ReservationState::Reserved
        | ReservationState::Committed
        | ReservationState::Provisioned => Status::Idle,
        ReservationState::Failed => Status::Failed(reservation.failure.clone().unwrap_or_default()),
        ReservationState::Released | ReservationState::Terminated => {
            let is_early = reservation.changed < reservation.promised_end;
            if is_early && reservation.changed < end_of(reservation) {
                return Status::Failed("the operator has ended its reservation".to_owned());
            }
            Status::Ended
        }
    }
}

/// Returns the links of the cheapest path between two nodes (Dijkstra 1959); among equal costs, the path with
/// the fewest links.
fn cheapest(links: &[LinkView], from: &str, to: &str) -> Option<Vec<String>> {
    let mut reached: BTreeMap<&str, Vec<&LinkView>> = BTreeMap::new();
    let mut open = BTreeSet::from([(0_u64, 0_usize, from)]);
    reached.insert(from, Vec::new());
    let mut done = BTreeSet::new();
    while let Some((cost, hops, node)) = open.pop_first() {
        if !done.insert(node) {
            continue;
        }
        let path = reached.get(node)?.clone();
        if node == to {
            return Some(path.iter().map(|link| link.name.clone()).collect());
        }
        for link in links.iter().filter(|link| link.from == node) {
            let next = (cost + u64::from(link.cost), hops + 1, link.to.as_str());
            let rank = |path: &Vec<&LinkView>| -> (u64, usize) {
                let cost = path.iter().map(|link| u64::from(link.cost)).sum();
                (cost, path.len())
            };
            let is_better = reached
                .get(link.to.as_str())
                .is_none_or(|known| (next.0, next.1) < rank(known));
            if is_better {
                reached.insert(&link.to, [&path[..], &[link]].concat());
                open.insert(next);
            }
        }
    }
    None
}

/// Returns the requested end of a reservation.
fn end_of(reservation: &Reservation) -> Timestamp {
    reservation.request.by.unwrap_or(reservation.promised_end)
}

/// Returns the request for one direction of a circuit.
fn request(circuit: &Circuit, (from, to): (&Port, &Port)) -> Result<NewReservation, Refusal> {
    let flow = from.interface.as_ref().map(|interface| {
        let packets = from.packets.as_deref().unwrap_or("all");
        let packets: Flow = packets.parse().map_err(|_| {
            let text = "the settings of the point have a wrong packet filter: tell the operator";
            refused(ErrorId::Internal, text)
        })?;
        let interface = interface.clone();
        Ok(FlowAt { interface, packets })
    });
    let rate = rate(circuit);
    let long = circuit.end.instant().since(circuit.start.instant());
    Ok(NewReservation {
        from: Some(from.node.clone()),
        to: Some(to.node.clone()),
        hold: Some(IsoDuration(long)),
        rate_max: Some(rate),
        rate_min: Some(rate),
        start: Some(circuit.start),
        by: Some(circuit.end),
        shape: Shape::Fixed,
        provision: Provision::Manual,
        flow: flow.transpose()?,
        ..NewReservation::default()
    })
}

fn refused(id: ErrorId, text: &str) -> Refusal {
    Refusal {
        id,
        text: text.to_owned(),
        is_temporary: false,
    }
}

/// Returns a refusal of the books with the code of NSI.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the argument of map_err is a value"
)]
fn refusal(why: Error) -> Refusal {
    let (id, is_temporary) = match &why {
        Error::Refused(CalendarRefusal::NoPath | CalendarRefusal::InterfaceOffPath) => {
            (ErrorId::NoPath, false)
        }
        Error::Refused(CalendarRefusal::StartPassed(_) | CalendarRefusal::BeyondHorizon(_)) => {
            (ErrorId::UnsupportedParameter, false)
        }
        Error::Refused(CalendarRefusal::CalendarFull(_))
        | Error::Quota(QuotaError::Uncommitted { .. }) => (ErrorId::ResourceUnavailable, false),
        Error::Refused(_) => (ErrorId::CapacityUnavailable, false),
        Error::Request(RequestError::UnknownNode(_)) => (ErrorId::UnknownStp, false),
        Error::Request(_)
        | Error::UnknownLink(_)
        | Error::KeyReused(_)
        | Error::EventsDropped { .. } => (ErrorId::ConnectionCreate, false),
        Error::Transition(_) => (ErrorId::InvalidTransition, false),
        Error::Quota(_) | Error::Policy(_) | Error::Forbidden { .. } => {
            (ErrorId::Unauthorized, false)
        }
        Error::Overlap(_) => (ErrorId::StpUnavailable, false),
        Error::NotFound { .. } => (ErrorId::ConnectionGone, false),
        Error::OtherWriter { .. } | Error::Store(_) | Error::Io(_) => (ErrorId::Internal, true),
        Error::Setup(_) => (ErrorId::Internal, false),
    };
    // a requester of NSI cannot commit with a request
    let text = if let Error::Quota(QuotaError::Uncommitted { link, till, .. }) = &why {
        format!(
            "connections of this requester held link {link} for too long in this hour without a commit: reserve again \
             after {}, or let the operator raise uncommitted_per_hour",
            till.second_after()
        )
    } else {
        why.to_string()
    };
    Refusal {
        id,
        text,
        is_temporary,
    }
}

/// Beginning of the reason in the journal.
const WHY: &str = "request of NSI";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use lighthaul_base::Rate;
    use lighthaul_booking::books::{Config, Quota};
    use lighthaul_booking::store::sqlite::Sqlite;
    use lighthaul_calendar::{Link, Topology};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// A full hour.
    const BEGIN: u64 = 1_800_000_000 * SECOND;

    /// Returns the circuits of books with a link in each direction.
    fn resources(config: Config, now: &Arc<AtomicU64>) -> BookResources {
        let link = |from: &str, to: &str| Link {
            name: format!("{from}-{to}"),
            from: from.to_owned(),
            to: to.to_owned(),
            capacity: Rate::from_mbps(1000),
            channel: Rate::from_mbps(1),
            guard: Duration::ZERO,
            cost: 1,
        };
        let links = vec![link("a", "b"), link("b", "a")];
        let topology = Topology::new(vec!["a".to_owned(), "b".to_owned()], links).unwrap();
        let (store, now) = (Box::new(Sqlite::in_memory().unwrap()), Arc::clone(now));
        let clock = move || Timestamp(now.load(Ordering::Relaxed));
        let books = Books::open(store, topology, config, clock).unwrap();
        BookResources::new(Arc::new(books), "urn:ogf:network:test")
    }

    /// Holds both directions as a whole, again and again, each until the hold expires. Returns the number of holds before
    /// a refusal, and the refusal.
    fn holds_before_refusal(config: Config) -> (u64, Option<Refusal>) {
        let now = Arc::new(AtomicU64::new(BEGIN));
        let resources = resources(config, &now);
        let port = |node: &str| Port {
            node: node.to_owned(),
            interface: None,
            packets: None,
        };
        for nth in 0..15 {
            let start = now.load(Ordering::Relaxed) + 600 * SECOND;
            let circuit = Circuit {
                from: port("a"),
                to: port("b"),
                rate_mbps: 1000,
                start: Timestamp(start),
                end: Timestamp(start + 3600 * SECOND),
                is_bidirectional: true,
                is_symmetric: true,
                via: Vec::new(),
            };
            if let Err(why) = resources.hold("agg", &nth.to_string(), &circuit) {
                return (nth, Some(why));
            }
            now.fetch_add(120 * SECOND, Ordering::Relaxed);
            resources.books.tick().unwrap();
        }
        (15, None)
    }

    #[test]
    fn requester_whose_holds_expire_is_not_refused() {
        assert_eq!(holds_before_refusal(Config::default()), (15, None));
    }

    #[test]
    fn limit_of_a_requester_counts_both_directions_once_and_names_what_it_can_do() {
        let quota = Quota {
            uncommitted: Some(Duration::from_mins(10)),
            ..Quota::default()
        };
        let (holds, why) = holds_before_refusal(Config {
            policy: quota.into(),
            ..Config::default()
        });
        let why = why.unwrap();
        assert_eq!(
            (holds, why.id, why.is_temporary),
            (5, ErrorId::ResourceUnavailable, false)
        );
        assert!(
            why.text
                .contains("reserve again after 2027-01-15T09:00:00Z"),
            "{}",
            why.text
        );
        assert!(
            !why.text.contains("commit with the request"),
            "{}",
            why.text
        );
    }
}
