//! What is asked for.

use lighthaul_circuit::flow::Flow;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::amount::{Bps, Bytes, Span};
use super::moment::Moment;

/// Capacity that somebody wants: between two hosts, or over named links; for so many bytes, or for so long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewReservation {
    /// The host that sends, as the topology names it; with `to`, or `path` instead of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "chicago")]
    pub from: Option<String>,
    /// The host that receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "amsterdam")]
    pub to: Option<String>,
    /// The links, in order, instead of `from` and `to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
    /// How much is to be moved: bytes, or text as in `1.2TB`; or `hold` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// How long the circuit is wanted: seconds, or text as in `PT2H`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
    /// The highest rate that is of use: bits a second, or text as in `10Gb/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_max: Option<Bps>,
    /// The lowest rate that is of use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_min: Option<Bps>,
    /// Not before this; now, if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Moment>,
    /// All must be over by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Moment>,
    /// What is added to `size` for headers and resends, in hundredths; 3 if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub margin_percent: Option<u8>,
    /// Of two that could be moved forward, or that an outage has put out, the higher one is first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 255)]
    pub priority: Option<u8>,
    /// Whether the rate may vary.
    pub shape: Shape,
    /// Whether circuits are made without being asked for.
    pub provision: Provision,
    /// Where a circuit begins, and which packets are its own; no circuit is made without it.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "FlowAt::read"
    )]
    pub flow: Option<FlowAt>,
    /// Commit at once, rather than hold it for a while.
    pub commit: bool,
}

/// Whether a rate may vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Whatever is free, up to the most (VBLS).
    #[default]
    Varying,
    /// The most, all the time (FBLS).
    Fixed,
}

/// When circuits are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provision {
    /// With the commit.
    #[default]
    Auto,
    /// When somebody says so.
    Manual,
}

/// Whose packets a circuit carries, and where they leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowAt {
    /// An interface, or a port of a switch.
    #[schema(example = "eth1")]
    pub interface: String,
    /// Which packets, as in `udp 10.0.0.2/32 5000-5010`, of which each part may be left out; `all` for all.
    #[serde(default)]
    #[schema(value_type = String, example = "udp 10.0.0.2 5000")]
    pub packets: Flow,
}

impl FlowAt {
    /// One as an object; an array would be taken for its fields in their order.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        let read = Option::<Map<String, Value>>::deserialize(deserializer)?;
        let read = read.map(|map| serde_json::from_value(Value::Object(map)));
        read.transpose().map_err(de::Error::custom)
    }
}

/// To make a reservation larger or smaller: its size, or how long it is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// The bytes that it is for from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// How long it is held from now on, counted from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
    /// Why, for the journal.
    pub why: String,
}

/// Why something is done, for the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Why {
    /// A few words.
    #[schema(example = "the copy is done")]
    pub why: String,
}
