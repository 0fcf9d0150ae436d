//! Tests of transfers in virtual time.

mod bad_days;
mod protocol_change;
