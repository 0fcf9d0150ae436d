//! Status of a running service.

use std::collections::BTreeMap;

use lighthaul_domain_links::LinkStatus;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_stargate::{DomainId, Stage, StoredReservation};

/// Status of a running service.
#[derive(Clone, Debug)]
pub struct Status {
    /// Number of this domain.
    pub me: DomainId,
    /// Name of this domain.
    pub name: String,
    /// Key of this domain, which neighbors pin.
    pub key: Fingerprint,
    /// Number of starts with the present store.
    pub epoch: u64,
    /// Links to the neighbors.
    pub links: BTreeMap<DomainId, LinkStatus>,
    /// Reservations, with reservations that were given up a moment ago.
    pub reservations: Vec<ReservationStatus>,
    /// Messages that the machine ignored.
    pub ignored: u64,
    /// Requests of local callers that wait for their outcome.
    pub requests: usize,
}

/// Reservation and its stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationStatus {
    /// Present stage.
    pub stage: Stage,
    /// Path, vector and times, as stored.
    pub stored: StoredReservation,
    /// Rates in b/s that the devices carry now, for each segment of this domain; `None` if a rate is not known.
    pub carried: Vec<Option<u64>>,
}
