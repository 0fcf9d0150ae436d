//! Comparison of the connections with the reservations of the network, before the first work after a start.
//!
//! The two stores differ if one of them was restored from an older backup. A reservation that no connection has is
//! ended, since no requester could end it. A connection whose reservation is missing, or was given to another circuit,
//! fails with an error that its requester finds by a query.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::warn;

use super::connection::Connection;
use super::resources::{Committed, Refusal};
use super::state::Provider;
use super::work::{Messages, missing};
use crate::machine::{LifecycleState, ReservationState};

impl Provider {
    /// Compares all connections with the reservations. After a temporary failure it must be called again.
    pub(super) fn compare(&self) -> Result<(), String> {
        let connections: Vec<Arc<Connection>> =
            self.lock().connections.values().map(Arc::clone).collect();
        for before in connections.iter().filter(|one| is_live(one)) {
            self.compare_one(before)?;
        }
        // the reservation of a connection that has passed its end may have been extended
        let has_passed = |one: &Connection| one.states.lifecycle == LifecycleState::PassedEndTime;
        let with_own = connections
            .iter()
            .filter(|one| is_live(one) || has_passed(one));
        let ids = with_own.flat_map(|one| &one.reservations);
        let known: BTreeSet<u64> = ids.copied().collect();
        let committed = self.resources.committed().map_err(|why| why.to_string())?;
        for Committed { owner, id } in committed {
            if known.contains(&id) {
                continue;
            }
            warn!(
                reservation = id,
                "no NSI connection has this reservation of {owner}, which a requester has committed: the store of \
                 connections may be older than the books. The reservation is ended"
            );
            match self.resources.end(&owner, &[id]) {
                Err(why) if why.is_temporary => return Err(why.to_string()),
                Err(why) => warn!(reservation = id, "cannot end the reservation: {why}"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Fails a connection whose reservations are missing. The next step finds a request that comes meanwhile.
    fn compare_one(&self, before: &Arc<Connection>) -> Result<(), String> {
        let Connection {
            identity,
            reservations,
            circuit,
            ..
        } = &**before;
        let lacking = match self.resources.missing(identity, reservations, circuit) {
            Ok(lacking) => lacking,
            Err(why) => return not_compared(before, &why),
        };
        if lacking.is_empty() || before.has_ended(self.now()) {
            return Ok(());
        }
        let mut connection = Connection::clone(before);
        connection.reservations.retain(|id| !lacking.contains(id));
        let messages = match self.give_up(&mut connection) {
            Ok(messages) => messages,
            Err(why) => return not_compared(before, &why),
        };
        warn!(
            connection = connection.id,
            "the books lack reservations {lacking:?} of this NSI connection, or have them for another circuit: they may \
             be older than the store of connections. The connection fails"
        );
        self.settle_step(before, connection, messages).map(drop)
    }

    /// Fails a connection. Its remaining reservations end.
    fn give_up(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        if connection.states.lifecycle == LifecycleState::Terminating {
            return Ok(Messages::new());
        }
        match connection.states.reservation {
            ReservationState::Held => self.time_out(connection),
            ReservationState::Committing => self.fail_commit(connection, &missing()),
            ReservationState::Aborting => Ok(Messages::new()),
            ReservationState::Start
            | ReservationState::Checking
            | ReservationState::Failed
            | ReservationState::Timeout => {
                if connection.is_committed {
                    self.force_end(connection, &missing())
                } else {
                    Ok(Messages::new())
                }
            }
        }
    }
}

/// Logs that a connection is left as it is, so that it does not stop the work for others. A temporary refusal is an
/// error.
fn not_compared(connection: &Connection, why: &Refusal) -> Result<(), String> {
    if why.is_temporary {
        return Err(why.to_string());
    }
    let id = connection.id.as_str();
    warn!(
        connection = id,
        "cannot compare this NSI connection with the books: {why}"
    );
    Ok(())
}

/// Returns true if a connection may have reservations that have not ended.
fn is_live(connection: &Connection) -> bool {
    matches!(
        connection.states.lifecycle,
        LifecycleState::Created | LifecycleState::Terminating
    )
}
