//! `cargo xtask sim [SECONDS] [SEED]`: random worlds for every protocol, and what must hold in each.
//!
//! - [`worlds`]: a world from a seed, and what may go wrong in it
//! - [`pairs`]: the machines of each protocol; a new one gets a line in [`pairs::PROTOCOLS`]
//! - [`checks`]: every byte once, nobody above its rate, always an end
//! - [`messages`], [`streams`]: worlds and checks of message streams, and of objects striped over streams
//! - [`slabs`], [`token`]: two gateways and their sessions, and gateways that share a channel by turns
mod checks;
#[expect(dead_code, reason = "tests of the machine use the rest")]
#[path = "../../../proto/tests/machines/cluster.rs"]
mod cluster;
mod messages;
mod pairs;
mod run;
mod slabs;
mod streams;
mod token;
mod worlds;

pub(crate) use run::main;
