//! Criteria of a reservation: schedule and point-to-point service.

use lighthaul_booking_client::json::Timestamp;
use serde::{Deserialize, Serialize};

use super::name::POINT_TO_POINT;
use crate::xml::DecodeError;
use crate::xml::element::Element;
use crate::xml::writer::Writer;

/// Criteria of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criteria {
    /// Version of the reservation.
    pub version: Option<u32>,
    /// Time of the circuit.
    pub schedule: Schedule,
    /// Service type, which defines the service element.
    pub service_type: Option<String>,
    /// Point-to-point service.
    pub p2p: Option<P2p>,
}

/// Time of a circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Start; now if absent.
    pub start: Option<Timestamp>,
    /// End; none if absent.
    pub end: Option<Timestamp>,
}

/// Point-to-point service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct P2p {
    /// Rate in megabits a second, in each direction.
    pub capacity_mbps: u64,
    /// Number of directions.
    pub directionality: Directionality,
    /// True if both directions must use the same path.
    pub symmetric_path: Option<bool>,
    /// Service termination point at which the circuit starts.
    pub source: String,
    /// Service termination point at which the circuit ends.
    pub dest: String,
    /// Points that the circuit must cross, in order (explicit route object).
    pub ero: Vec<String>,
    /// Names of elements that this implementation does not support.
    pub unsupported: Vec<String>,
}

/// Number of directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Directionality {
    /// Both directions.
    #[default]
    Bidirectional,
    /// From the source to the destination.
    Unidirectional,
}

impl Criteria {
    pub(super) fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        let element = "version";
        let expected = "a version number";
        let version = of.attribute(element).map(str::parse).transpose();
        let schedule = of.optional("schedule")?;
        let p2p = of.qualified(POINT_TO_POINT, "p2ps")?;
        Ok(Self {
            version: version.map_err(|_| DecodeError::Value { element, expected })?,
            schedule: schedule
                .map(Schedule::decode)
                .transpose()?
                .unwrap_or_default(),
            service_type: of.optional_text("serviceType")?,
            p2p: p2p.map(P2p::decode).transpose()?,
        })
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        self.write(w, |_| ());
    }

    /// Adds the criteria of the answer to a query. It lists the parts of the circuit in other networks, of which there are
    /// none. Requesters such as `OpenNSA` need the empty list.
    pub(super) fn encode_result(&self, w: &mut Writer) {
        self.write(w, |w| w.element("children", &[], |_| ()));
    }

    /// Adds the criteria, with what `between` adds before the service.
    fn write(&self, w: &mut Writer, between: impl FnOnce(&mut Writer)) {
        let version = self.version.map(|version| version.to_string());
        let attributes = version.iter().map(|version| ("version", version.as_str()));
        let attributes: Vec<_> = attributes.collect();
        w.element("criteria", &attributes, |w| {
            w.element("schedule", &[], |w| {
                w.optional("startTime", self.schedule.start.map(|at| at.to_string()));
                w.optional("endTime", self.schedule.end.map(|at| at.to_string()));
            });
            w.optional("serviceType", self.service_type.as_ref());
            between(w);
            if let Some(p2p) = &self.p2p {
                p2p.encode(w);
            }
        });
    }
}

impl Schedule {
    fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            start: of.optional_time("startTime")?,
            end: of.optional_time("endTime")?,
        })
    }
}

impl P2p {
    fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        let element = "directionality";
        let directionality = match of.optional_text(element)?.as_deref() {
            None | Some("Bidirectional") => Directionality::Bidirectional,
            Some("Unidirectional") => Directionality::Unidirectional,
            Some(_) => {
                let expected = "Bidirectional or Unidirectional";
                return Err(DecodeError::Value { element, expected });
            }
        };
        let ero = of.optional("ero")?;
        let unsupported = ["parameter", "inclusion", "exclusion"].into_iter();
        let unsupported = unsupported.filter(|name| of.all(name).next().is_some());
        Ok(Self {
            capacity_mbps: of.value("capacity", "a whole number of Mb/s")?,
            directionality,
            symmetric_path: of.optional_boolean("symmetricPath")?,
            source: of.text("sourceSTP")?,
            dest: of.text("destSTP")?,
            ero: ero.map_or(Ok(Vec::new()), hops)?,
            unsupported: unsupported.map(str::to_owned).collect(),
        })
    }

    fn encode(&self, w: &mut Writer) {
        let directionality = match self.directionality {
            Directionality::Bidirectional => "Bidirectional",
            Directionality::Unidirectional => "Unidirectional",
        };
        w.element("p:p2ps", &[], |w| {
            w.text("capacity", self.capacity_mbps.to_string());
            w.text("directionality", directionality);
            w.optional(
                "symmetricPath",
                self.symmetric_path.map(|is| is.to_string()),
            );
            w.text("sourceSTP", &self.source);
            w.text("destSTP", &self.dest);
            if self.ero.is_empty() {
                return;
            }
            w.element("ero", &[], |w| {
                for (nth, stp) in self.ero.iter().enumerate() {
                    w.element("orderedSTP", &[("order", &nth.to_string())], |w| {
                        w.text("stp", stp);
                    });
                }
            });
        });
    }
}

/// Reads the points of an explicit route object in their order.
fn hops(ero: Element<'_>) -> Result<Vec<String>, DecodeError> {
    let element = "order";
    let expected = "a number that no other point has";
    let wrong = DecodeError::Value { element, expected };
    let mut hops: Vec<(i64, String)> = Vec::new();
    for hop in ero.all("orderedSTP") {
        if hops.len() >= HOPS_MAX {
            let (element, expected) = ("ero", "at most 64 points");
            return Err(DecodeError::Value { element, expected });
        }
        let order = hop
            .attribute(element)
            .ok_or(DecodeError::Missing(element))?;
        let order = order.parse().map_err(|_| wrong.clone())?;
        hops.push((order, hop.text("stp")?));
    }
    hops.sort();
    if hops.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(wrong);
    }
    Ok(hops.into_iter().map(|(_, stp)| stp).collect())
}

/// Maximum number of points of an explicit route.
const HOPS_MAX: usize = 64;
