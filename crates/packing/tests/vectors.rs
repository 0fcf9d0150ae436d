//! Octets of messages are those that programs in all languages share.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other numbers are whole"
)]

use std::sync::Arc;

use lighthaul_packing::{Announcer, Checker, Message, Number, Schema, Value};

/// Messages with their octets, which Python and C++ read, too.
const VECTORS: &str = include_str!("vectors.txt");

#[test]
fn messages_have_the_octets_of_the_vectors() {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let mut message: Option<Message> = None;
    let mut count = 0;
    for line in lines.filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "schema" {
            let schema: Schema = rest.parse().unwrap();
            message = Some(Message::new(&Arc::new(schema)));
            continue;
        }
        let message = message.as_mut().unwrap();
        let schema = Arc::clone(message.schema());
        match word {
            "number" => assert_eq!(format!("{:016x}", schema.number()), rest),
            "octets" => {
                let packed = message.pack().unwrap();
                assert_eq!(hex(&packed), rest, "{}", schema.name());
                let read = Message::unpack(&schema, &packed).unwrap();
                assert_eq!(read, *message);
                count += 1;
            }
            "announcement" => {
                let mut announcer = Announcer::new(&schema, None);
                let announced = announcer.before_message().unwrap();
                assert_eq!(hex(announced), rest);
                assert_eq!(Checker::new(&schema).take(announced), Ok(None));
            }
            kind => set(message, kind, rest),
        }
    }
    assert_eq!(count, 6);
}

/// Sets a field: its name and its value.
fn set(message: &mut Message, kind: &str, rest: &str) {
    let (field, value) = rest.split_once(' ').unwrap_or((rest, ""));
    let value = match kind {
        "bool" => Value::Bool(value == "true"),
        "unsigned" => Value::Unsigned(value.parse().unwrap()),
        "signed" => Value::Signed(value.parse().unwrap()),
        "float" => Value::Float(value.parse().unwrap()),
        "text" => Value::Text(value.to_owned()),
        "bytes" => Value::Bytes(octets(value)),
        "array" => array(value),
        _ => panic!("{kind} is no kind of a value"),
    };
    message.set(field, value).unwrap();
}

/// Returns an array: the type of its numbers, and its numbers.
fn array(text: &str) -> Value {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let number = Number::ALL.into_iter().find(|one| one.name() == name);
    let number = number.unwrap();
    let octets = |word: &str| match number {
        Number::F32 => word.parse::<f32>().unwrap().to_le_bytes().to_vec(),
        Number::F64 => word.parse::<f64>().unwrap().to_le_bytes().to_vec(),
        whole => word.parse::<i128>().unwrap().to_le_bytes()[..whole.width()].to_vec(),
    };
    Value::Array(number, words.flat_map(octets).collect())
}

fn hex(octets: &[u8]) -> String {
    let pairs: Vec<String> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    pairs.concat()
}

fn octets(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let octet = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(octet).collect()
}
