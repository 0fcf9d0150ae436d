//! Domains as operators run them: real services on hosts of a lab, paths from the command line, and copies over them.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(
    clippy::print_stdout,
    reason = "`make demo-domains` shows what happens"
)]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod commands;
#[expect(dead_code, reason = "tests of the driver use the rest")]
#[path = "../../../circuit/tests/tl1/emulator.rs"]
mod emulator;
#[path = "../guide/expected.rs"]
mod expected;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "../cp/far.rs"]
mod far;
mod lab;
mod link_scheduler;
mod offers;
#[expect(dead_code, reason = "tests of the driver use the rest")]
#[path = "../../../circuit/tests/tl1/replies.rs"]
mod replies;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "../cp/running.rs"]
mod running;
#[path = "../cp/schema.rs"]
mod schema;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "../cp/scratch.rs"]
mod scratch;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "../cp/stage.rs"]
mod stage;
mod three_domains;
mod transcript;
