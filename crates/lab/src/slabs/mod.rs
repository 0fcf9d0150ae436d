//! Figures of slabs (SLaBS): effects of a gateway's buffer, of late channels, and of a channel that gateways share.
//!
//! - [`plan`]: plans of figures; [`simulate`]: their simulation by the protocol machines
//! - [`gateway_setup`]: gateways in virtual time; [`on_demand_gateway`]: a gateway with a channel on demand;
//!   [`turns`]: slots of a cluster
//! - [`plot`]: pictures; [`figures`]: all figures
pub mod figures;
pub mod gateway_setup;
pub mod on_demand_gateway;
pub mod plan;
pub mod plot;
pub mod simulate;
pub mod turns;
