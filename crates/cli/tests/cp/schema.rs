//! Check of events against the published schema. A keyword of JSON Schema that this check does not know is a fault.

use serde_json::Value;

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

/// Checks `value` against `rule`.
pub(crate) fn check(schema: &Value, rule: &Value, value: &Value) -> Result<(), String> {
    for (word, rule) in rule.as_object().unwrap() {
        let holds = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(schema, schema.pointer(name).unwrap(), value)?;
                true
            }
            "oneOf" => return one_of(schema, rule.as_array().unwrap(), value),
            "type" => match rule.as_array() {
                Some(names) => names.iter().any(|name| is(name, value)),
                None => is(rule, value),
            },
            "const" => rule == value,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value
                .as_f64()
                .is_none_or(|number| number >= rule.as_f64().unwrap()),
            "pattern" => value
                .as_str()
                .is_none_or(|text| matches(rule.as_str().unwrap(), text)),
            "required" => {
                let names = rule.as_array().unwrap();
                let Some(there) = value.as_object() else {
                    return Err(format!("{value} is no object"));
                };
                names
                    .iter()
                    .all(|name| there.contains_key(name.as_str().unwrap()))
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    check(schema, rule, item)?;
                }
                true
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    let rule = rule
                        .get(name)
                        .ok_or_else(|| format!("{name} is not described"))?;
                    check(schema, rule, value).map_err(|why| format!("{name}: {why}"))?;
                }
                true
            }
            other => panic!("the schema says {other}, which this test does not know"),
        };
        if !holds {
            return Err(format!("{value} is not {word} {rule}"));
        }
    }
    Ok(())
}

/// Exactly one of the events must fit; the one of its type says why it does not.
fn one_of(schema: &Value, rules: &[Value], value: &Value) -> Result<(), String> {
    let results = rules.iter().map(|rule| check(schema, rule, value));
    match results.flatten().count() {
        1 => Ok(()),
        0 => {
            let kind = value["type"].as_str().unwrap_or_default();
            match schema["$defs"].get(kind) {
                Some(rule) => check(schema, rule, value),
                None => Err(format!("there is no event {kind:?}")),
            }
        }
        _ => Err("more than one event fits".to_owned()),
    }
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("there is no type {other}"),
    }
}

/// The few patterns that the schema has: digits of some alphabet.
fn matches(pattern: &str, text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match pattern {
        "^([0-9a-f][0-9a-f])+$" => !text.is_empty() && text.len().is_multiple_of(2) && hex(text),
        "^[0-9a-f]*$" => hex(text),
        "^[0-7]{4}$" => text.len() == 4 && text.bytes().all(|b| matches!(b, b'0'..=b'7')),
        other => panic!("this test does not know the pattern {other}"),
    }
}
