//! Floor 5: copies of files, from the list of entries to the verdict on each.
//!
//! - [`message`]: what the two sides of a copy say; [`send`], [`receive`]: the two roles
//! - `crew`: the threads of a copy, and `board`, what they show; [`budget`]: how much one copy may hold;
//!   `failures`: entries that failed, and the reasons, within bounds
//! - [`vector`]: what a circuit carries; [`ease`]: how fast it goes when the receiving host drops
//! - [`relay`]: what is said of a copy between two others
//! - [`watch`]: what an onlooker sees
//! - `work`: steps of one side, counted; `stall`: end of a copy in which nobody works

pub mod budget;
pub mod ease;
pub mod message;
pub mod receive;
pub mod relay;
pub mod send;
pub mod vector;
pub mod watch;

mod board;
mod crew;
mod failures;
mod stall;
mod work;
