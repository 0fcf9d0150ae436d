//! Requests for capacity, and changes of reservations.

use lighthaul_circuit::flow::Flow;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::amount::{Bps, Bytes, IsoDuration};
use super::small_number;
use super::timestamp::Timestamp;

/// Request for capacity between two hosts or over given links, for an amount of data or a length of
/// time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
// fields: message of the REST interface, one for each property
pub struct NewReservation {
    /// Source host, as named by the topology; needs `to`. Use `path` instead of both to select
    /// links.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "chicago")]
    pub from: Option<String>,
    /// Target host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "amsterdam")]
    pub to: Option<String>,
    /// Links in order, instead of `from` and `to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
    /// Amount of data: bytes, or text as in `1.2TB`. Use `hold` instead to book a length of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Length of time: seconds, or text as in `2h30m` or `PT2H`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<IsoDuration>,
    /// Highest usable rate: bits a second, or text as in `10Gb/s` [default: the highest that is
    /// available].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_max: Option<Bps>,
    /// Lowest usable rate [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_min: Option<Bps>,
    /// Earliest start [default: now].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// Latest end [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Timestamp>,
    /// Percentage added to `size` for headers and retransmissions [default: 3].
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "small_number::read"
    )]
    #[schema(minimum = 0, maximum = 100)]
    pub margin_percent: Option<u8>,
    /// Priority when reservations are moved: higher values are placed first [default: 0].
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "small_number::read"
    )]
    #[schema(minimum = 0, maximum = 255)]
    pub priority: Option<u8>,
    /// Varying or fixed rate.
    pub shape: Shape,
    /// Automatic or manual provisioning of the circuit.
    pub provision: Provision,
    /// Interface and packets of the circuit [default: no circuit].
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "FlowAt::read"
    )]
    pub flow: Option<FlowAt>,
    /// Commit at once, without a hold.
    pub commit: bool,
}

/// Discipline: decides if the rate may vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// The free rate up to the highest one (VBLS).
    #[default]
    Varying,
    /// The highest rate from start to end (FBLS).
    Fixed,
}

/// Time at which the circuit is provisioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provision {
    /// With the commit.
    #[default]
    Auto,
    /// On request.
    Manual,
}

/// Packets that a circuit carries, and the interface at which they leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct FlowAt {
    /// Interface, or port of a switch.
    #[schema(example = "eth1")]
    pub interface: String,
    /// Packet filter, as in `udp 10.0.0.2/32 5000-5010`. Each part may be omitted; `all` matches
    /// all packets.
    #[serde(default)]
    #[schema(value_type = String, example = "udp 10.0.0.2 5000")]
    pub packets: Flow,
}

impl FlowAt {
    /// Reads an object. An array would otherwise be read as the fields in their order.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        let read = Option::<Map<String, Value>>::deserialize(deserializer)?;
        let read = read.map(|map| serde_json::from_value(Value::Object(map)));
        read.transpose().map_err(de::Error::custom)
    }
}

/// New size or holding time of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
pub struct Change {
    /// New size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// New holding time, counted from the start of the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<IsoDuration>,
    /// Reason, for the journal.
    pub why: String,
}

/// Reason for an action, for the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
pub struct Reason {
    /// Short text.
    #[schema(example = "the copy is done")]
    pub why: String,
}
