//! Floor 6: labs, which are hosts in namespaces with emulated wide-area links between them in real
//! time; and figures of the papers.
//!
//! - [`settings`]: a lab as written in TOML; [`description`]: a checked lab
//! - [`emulate`]: a running lab, with commands in it; [`core_load`]: load on a core; [`counters`]:
//!   counters of its links
//! - [`plan`]: plans of figures; [`simulate`]: their simulation in virtual time; [`table`],
//!   [`plot`]: results; [`paper`]: numbers of papers; [`figure`]: one figure; [`figures`]: all of them
//! - [`probe`]: emulation of a case with the `lighthaul` command
//! - [`vector`]: transfers that follow a TRC vector; [`circuit_use`]: copies of several objects on a circuit;
//!   [`shared_link_plan`]: several SABUL flows
//! - [`contest`], [`beside`], [`latency`], [`slabs`]: other kinds of figures; [`measured`]: those measured with real
//!   programs; `panels`: their pictures; `file`: plans in files
//! - [`quantity`]: parsers of rates, sizes, times and probabilities; [`error`]: errors

pub mod beside;
pub mod circuit_use;
pub mod congestion;
pub mod contest;
pub mod core_load;
pub mod counters;
pub mod description;
pub mod emulate;
pub mod error;
pub mod figure;
pub mod figures;
pub mod file;
pub mod latency;
pub mod measured;
pub mod paper;
pub mod plan;
pub mod plot;
pub mod probe;
pub mod quantity;
pub mod settings;
pub mod shared_link_plan;
pub mod simulate;
pub mod slabs;
pub mod table;
pub mod vector;

mod icmp;
mod line;
mod netns;
mod panels;
mod route;
mod wan;
