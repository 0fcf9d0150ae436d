//! Devices that a program controls. The program runs, reads requests as lines of JSON, and writes an answer to each:
//!
//! ```text
//! {"seq":1,"verb":"hello","versions":[1]}
//!     {"seq":1,"version":1,"capabilities":{"rate_min_bps":1000000,"rate_max_bps":10000000000,
//!      "granularity_bps":1000000,"reconfiguration_ns":10000000,"settling_ns":0,"circuits_max":96,
//!      "counted":{"layer":"link","overhead_bytes":24}}}
//! {"seq":2,"verb":"apply","changes":[{"id":7,"interface":"1/1/3","flow":"udp 10.0.0.2/32 5000-5000","rate_bps":0}]}
//!     {"seq":2,"results":[null]}     or {"fault":"refused","reason":"port 9 is dark"}, for each change
//! {"seq":3,"verb":"remove","id":7}
//!     {"seq":3,"results":[null]}
//! {"seq":4,"verb":"inspect"}
//!     {"seq":4,"circuits":[{"id":7,"flow":"udp 10.0.0.2/32 5000-5000","rate_bps":0}]}
//! ```
//!
//! A device with timers has `timer_max_ms` among its capabilities, and changes have `timer_ms`. A rate of zero is a circuit that exists but takes no packets. `{"seq":2,"error":"..."}` answers any request that was
//! not understood. `schema/driver.v1.json` describes all lines.
//!
//! - [`config`]: the program; [`driver`]: the driver; [`message`]: requests; [`answer`]: answers
//! - `session`: numbers, version and restarts; `program`: lines with limits

pub mod answer;
pub mod config;
pub mod driver;
pub mod message;

mod program;
mod session;

pub use answer::Answer;
pub use driver::Exec;
