//! Check of JSON against a schema. A keyword of JSON Schema that this check does not know is a fault.

use serde_json::Value;

/// Checks `value` against `rule`, a part of `schema`. An object has only the fields that its rule describes.
pub fn check(schema: &Value, rule: &Value, value: &Value) -> Result<(), String> {
    for (word, rule) in members(rule) {
        let holds = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" => true,
            // fields that are not described are refused in any case
            "additionalProperties" => *rule == Value::Bool(false),
            "$ref" => {
                check(schema, definition(schema, rule), value)?;
                true
            }
            "oneOf" => {
                one_of(schema, list(rule), value)?;
                true
            }
            "type" => match rule.as_array() {
                Some(names) => names.iter().any(|name| is(name, value)),
                None => is(rule, value),
            },
            "const" => rule == value,
            "enum" => list(rule).contains(value),
            "minimum" => is_in_order(rule, value),
            "maximum" => is_in_order(value, rule),
            "pattern" => value
                .as_str()
                .is_none_or(|text| matches(rule.as_str().unwrap_or_default(), text)),
            "required" => {
                // a value of another type has no fields
                let mut names = list(rule).iter().filter_map(Value::as_str);
                let has = |name| {
                    value
                        .as_object()
                        .is_none_or(|there| there.contains_key(name))
                };
                names.all(has)
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
            other => panic!("the schema says {other}, which this check does not know"),
        };
        if !holds {
            return Err(format!("{value} is not {word} {rule}"));
        }
    }
    Ok(())
}

fn members(rule: &Value) -> &serde_json::Map<String, Value> {
    rule.as_object().expect("a rule is an object")
}

fn list(rule: &Value) -> &[Value] {
    rule.as_array().expect("this keyword has a list")
}

fn definition<'a>(schema: &'a Value, name: &Value) -> &'a Value {
    let name = name.as_str().and_then(|name| name.strip_prefix('#'));
    name.and_then(|name| schema.pointer(name))
        .expect("a reference names a definition")
}

/// Returns an error unless exactly one rule fits.
fn one_of(schema: &Value, rules: &[Value], value: &Value) -> Result<(), String> {
    let results: Vec<_> = rules
        .iter()
        .map(|rule| check(schema, rule, value))
        .collect();
    match results.iter().filter(|result| result.is_ok()).count() {
        1 => Ok(()),
        0 => {
            let reasons: Vec<String> = results.into_iter().filter_map(Result::err).collect();
            Err(format!("nothing fits: {}", reasons.join("; ")))
        }
        _ => Err("more than one rule fits".to_owned()),
    }
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap_or_default() {
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

/// Returns true for two numbers that do not decrease, and if one is no number.
fn is_in_order(low: &Value, high: &Value) -> bool {
    let [low, high] = [low, high].map(Value::as_f64);
    low.zip(high).is_none_or(|(low, high)| low <= high)
}

/// Returns true if text matches one of the few supported patterns: digits of an alphabet.
fn matches(pattern: &str, text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match pattern {
        "^([0-9a-f][0-9a-f])+$" => !text.is_empty() && text.len().is_multiple_of(2) && hex(text),
        "^[0-9a-f]*$" => hex(text),
        "^[0-7]{4}$" => text.len() == 4 && text.bytes().all(|b| matches!(b, b'0'..=b'7')),
        other => panic!("this check does not know the pattern {other}"),
    }
}
