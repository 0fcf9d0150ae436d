//! States of a connection in queries and failures.

use serde::{Deserialize, Serialize};

use crate::machine::{LifecycleState, ProvisionState, ReservationState};
use crate::xml::DecodeError;
use crate::xml::element::Element;
use crate::xml::writer::Writer;

/// States of the three machines, and of the data plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStates {
    /// State of the reservation.
    pub reservation: ReservationState,
    /// State of the circuit.
    pub provision: ProvisionState,
    /// State of the connection.
    pub lifecycle: LifecycleState,
    /// State of the data plane.
    pub data_plane: DataPlaneStatus,
}

/// State of the data plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPlaneStatus {
    /// True if the circuit carries packets.
    pub active: bool,
    /// Version of the reservation that the devices have.
    pub version: u32,
    /// True if all devices have the same version.
    pub is_consistent: bool,
}

impl ConnectionStates {
    pub(super) fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            reservation: state(of, "reservationState", ReservationState::named)?,
            provision: state(of, "provisionState", ProvisionState::named)?,
            lifecycle: state(of, "lifecycleState", LifecycleState::named)?,
            data_plane: DataPlaneStatus::decode(of.required("dataPlaneStatus")?)?,
        })
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        w.element("connectionStates", &[], |w| {
            w.text("reservationState", self.reservation.name());
            w.text("provisionState", self.provision.name());
            w.text("lifecycleState", self.lifecycle.name());
            self.data_plane.encode(w);
        });
    }
}

impl DataPlaneStatus {
    pub(super) fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            active: of.boolean("active")?,
            version: of.value("version", "a version number")?,
            is_consistent: of.boolean("versionConsistent")?,
        })
    }

    pub(super) fn encode(self, w: &mut Writer) {
        w.element("dataPlaneStatus", &[], |w| {
            w.text("active", self.active.to_string());
            w.text("version", self.version.to_string());
            w.text("versionConsistent", self.is_consistent.to_string());
        });
    }
}

fn state<T>(
    of: Element<'_>,
    element: &'static str,
    named: impl FnOnce(&str) -> Option<T>,
) -> Result<T, DecodeError> {
    let text = of.text(element)?;
    let expected = "a state of its machine (GFD.237)";
    named(&text).ok_or(DecodeError::Value { element, expected })
}
