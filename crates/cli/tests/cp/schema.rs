//! Check of events against the published schema.

use serde_json::Value;

pub(crate) use lighthaul_testkit::schema::check;

use crate::running::Outcome;

/// Asserts that each line of standard output is an event of the schema, without fields that
/// the schema lacks. Returns the events.
pub(crate) fn assert_valid(outcome: &Outcome) -> Vec<Value> {
    let schema = schema();
    let events = outcome.events();
    assert!(!events.is_empty(), "{outcome:?}");
    for event in &events {
        if let Err(why) = check(&schema, &schema, event) {
            panic!("{event}: {why}");
        }
    }
    events
}

/// The schema.
pub(crate) fn schema() -> Value {
    serde_json::from_str(include_str!("../../schema/events.v1.json")).unwrap()
}
