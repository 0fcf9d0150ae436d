//! Route of measured streams.

/// Route of streams to the server, with their congestion control on the whole path (direct) or on the edges (gateways).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Streams through the gateways.
    Gateways(&'static str),
    /// Direct streams.
    Direct(&'static str),
}

impl Route {
    /// Returns the congestion control of the senders.
    pub(super) const fn control(self) -> &'static str {
        match self {
            Self::Gateways(control) | Self::Direct(control) => control,
        }
    }

    /// Returns the name in tables.
    pub(super) fn name(self) -> String {
        match self {
            Self::Gateways("cubic") => "gateways".to_owned(),
            Self::Gateways(control) => format!("gateways, {control}"),
            Self::Direct(control) => format!("direct, {control}"),
        }
    }

    /// Returns the name of the column in figures.
    pub(super) fn column(self) -> String {
        self.name().replace(", ", "_")
    }
}
