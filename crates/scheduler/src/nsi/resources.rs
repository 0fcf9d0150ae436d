//! Reservations of the books as circuits of NSI.
//!
//! A circuit is one reservation for each direction, with a constant rate from start to end. An
//! identity has the rights of a user here, whatever its role elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lighthaul_booking::books::{Books, Principal};
use lighthaul_booking::error::{Error, RequestError};
use lighthaul_booking_client::json::{
    Bps, FlowAt, IsoDuration, LinkView, NewReservation, Provision, Reservation, Shape, Timestamp,
};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_booking_client::role::Role;
use lighthaul_calendar::Refusal as CalendarRefusal;
use lighthaul_circuit::flow::Flow;
use lighthaul_nsi::message::ErrorId;
use lighthaul_nsi::provider::{Circuit, Hold, Port, Refusal, Resources, Status};

/// Books that make circuits.
#[derive(Debug)]
pub struct BookResources(Arc<Books>);

impl BookResources {
    /// Returns the circuits of `books`.
    pub const fn new(books: Arc<Books>) -> Self {
        Self(books)
    }

    /// Reserves one direction, and checks that it has the whole rate for the whole time.
    fn hold_one(
        &self,
        principal: &Principal,
        key: &str,
        circuit: &Circuit,
        new: &NewReservation,
    ) -> Result<Reservation, Refusal> {
        let made = self.0.reserve(principal, new, Some(key)).map_err(refusal)?;
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
        self.0
            .terminate(principal, made.id, "it has another rate or time")
            .map_err(refusal)?;
        let text =
            "the links have no channels for exactly this rate and time: send another capacity";
        Err(refused(ErrorId::CapacityUnavailable, text))
    }

    /// Returns the cheapest links that lead from each node of `nodes` to the next node.
    fn along(&self, nodes: &[&String]) -> Result<Vec<String>, Refusal> {
        let links = self.0.topology().map_err(refusal)?.links;
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
        let links = self.0.topology().map_err(refusal)?.links;
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
            let reservation = self.0.get(&principal, *id).map_err(refusal)?;
            act(&self.0, &principal, &reservation).map_err(refusal)?;
        }
        Ok(())
    }
}

impl Resources for BookResources {
    fn hold(&self, owner: &str, key: &str, circuit: &Circuit) -> Result<Hold, Refusal> {
        let principal = Principal::new(owner, Role::User);
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
            books.commit(principal, reservation.id, WHY).map(drop)
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
            books.provision(principal, reservation.id, WHY).map(drop)
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
            books.deprovision(principal, reservation.id, WHY).map(drop)
        })
    }

    fn end(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal> {
        for id in reservations {
            let ended = self.each(owner, &[*id], |books, principal, reservation| {
                if reservation.state.is_final() {
                    return Ok(());
                }
                books.terminate(principal, reservation.id, WHY).map(drop)
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
            match self.0.look(&principal, *id, direction).map_err(refusal) {
                Err(why) if why.id == ErrorId::ConnectionGone => return Ok(Status::Missing),
                Err(why) => return Err(why),
                Ok(Status::Active) => {}
                Ok(Status::Idle) => status = Status::Idle,
                Ok(over) => return Ok(over),
            }
        }
        Ok(status)
    }
}

/// Returns the status of one direction.
fn direction(reservation: &Reservation) -> Status {
    match reservation.state {
        ReservationState::Active => Status::Active,
        ReservationState::Reserved
        | ReservationState::Committed
        | ReservationState::Provisioned => Status::Idle,
        ReservationState::Failed => {
            Status::Failed(reservation.failure.clone().unwrap_or_default())
        }
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
    let rate = Bps(circuit.rate_mbps.saturating_mul(1_000_000));
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
        Error::Refused(CalendarRefusal::CalendarFull(_)) => (ErrorId::ResourceUnavailable, false),
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
    let text = why.to_string();
    Refusal {
        id,
        text,
        is_temporary,
    }
}

/// Reason in the journal.
const WHY: &str = "request of NSI";
