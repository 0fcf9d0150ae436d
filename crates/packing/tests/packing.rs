//! Messages are read as they were written, and octets that are no message are refused.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use lighthaul_packing::{Checker, Error, FieldType, Message, Number, Schema, Value};
use proptest::prelude::*;

fn schema(text: &str) -> Arc<Schema> {
    Arc::new(text.parse().unwrap())
}

#[test]
fn message_is_read_as_it_was_written() {
    let pose = schema(
        "Pose { time: f64, joints: [f32], frame: u16, offset: i32, name: text, image: bytes, valid: bool }",
    );
    let mut message = Message::new(&pose);
    assert_eq!(message.pack(), Err(Error::Unset("time".to_owned())));
    message
        .set("time", 1.5)
        .unwrap()
        .set("frame", 7_u64)
        .unwrap();
    message
        .set("offset", -8_i8)
        .unwrap()
        .set("name", "arm")
        .unwrap();
    message
        .set("image", &b"\x00\xff"[..])
        .unwrap()
        .set("valid", true)
        .unwrap();
    message.set_array("joints", &[0.25_f32, -1.0]).unwrap();
    let octets = message.pack().unwrap();
    let read = Message::unpack(&pose, &octets).unwrap();
    assert_eq!(read, message);
    assert_eq!(read.float("time"), Ok(1.5));
    assert_eq!(read.array::<f32>("joints"), Ok(vec![0.25, -1.0]));
    assert_eq!(
        (read.unsigned("frame"), read.signed("offset")),
        (Ok(7), Ok(-8))
    );
    assert_eq!(
        (read.text("name"), read.bytes("image")),
        (Ok("arm"), Ok(&b"\x00\xff"[..]))
    );
    assert_eq!(read.boolean("valid"), Ok(true));
    let why = read.array::<f64>("joints").unwrap_err();
    assert_eq!(why.to_string(), "the field joints is [f32], and not [f64]");
    assert!(matches!(read.text("none"), Err(Error::NoField { .. })));
}

/// The octets are those of the RFCs, which programs in other languages read.
#[test]
fn octets_are_cbor_with_typed_arrays() {
    let small = schema("A { x: [f32], y: i16, z: f32 }");
    let mut message = Message::new(&small);
    message.set_array("x", &[1.0_f32, 2.0]).unwrap();
    message.set("y", -2_i16).unwrap().set("z", 1.5_f32).unwrap();
    let octets = message.pack().unwrap();
    // array of 4; number of the schema; tag 85 and 8 octets; -2; float
    assert_eq!(octets[..2], [0x84, 0x1b]);
    assert_eq!(octets[2..10], small.number().to_be_bytes());
    let rest = [
        0xd8, 85, 0x48, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0x21, 0xfa, 0x3f, 0xc0, 0, 0,
    ];
    assert_eq!(octets[10..], rest);
}

#[test]
fn array_costs_nothing_for_each_element() {
    let samples = schema("Samples { values: [f64] }");
    let mut message = Message::new(&samples);
    message
        .set_array("values", &vec![0.1_f64; 100_000])
        .unwrap();
    let octets = message.pack().unwrap();
    assert!(octets.len() < 800_000 + 20, "{}", octets.len());
    // the octets of the array stand in the message as they are in memory
    assert!(octets.ends_with(&[0.1_f64.to_le_bytes(), 0.1_f64.to_le_bytes()].concat()));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let all = schema("A { b: u8, i: i8, f: f32, t: text, m: [u16; 2] }");
    let mut message = Message::new(&all);
    assert!(matches!(
        message.set("b", 256_u64).unwrap_err(),
        Error::Range { .. }
    ));
    assert!(matches!(
        message.set("b", -1_i64).unwrap_err(),
        Error::Range { .. }
    ));
    assert!(matches!(
        message.set("i", 128_u64).unwrap_err(),
        Error::Range { .. }
    ));
    assert!(matches!(
        message.set("f", 1e300).unwrap_err(),
        Error::Range { .. }
    ));
    assert!(matches!(
        message.set("f", 16_777_217_u64).unwrap_err(),
        Error::Range { .. }
    ));
    assert!(matches!(
        message.set("t", 1_u8).unwrap_err(),
        Error::OtherType { .. }
    ));
    assert!(matches!(
        message.set_array("m", &[1_u16]).unwrap_err(),
        Error::Range { .. }
    ));
    assert!(matches!(
        message.set_array("m", &[1_u32, 2]).unwrap_err(),
        Error::OtherType { .. }
    ));
    message
        .set("f", f64::NAN)
        .unwrap()
        .set("f", f64::INFINITY)
        .unwrap();
    message
        .set("b", 255_i64)
        .unwrap()
        .set("i", -128_i64)
        .unwrap()
        .set("f", 3_u8)
        .unwrap();
}

fn value(kind: FieldType) -> BoxedStrategy<Value> {
    let array = |number: Number, len: std::ops::RangeInclusive<usize>| {
        let octets = prop::collection::vec(
            any::<u8>(),
            *len.start() * number.width()..=*len.end() * number.width(),
        );
        octets.prop_map(move |mut octets| {
            octets.truncate(octets.len() / number.width() * number.width());
            Value::Array(number, octets)
        })
    };
    match kind {
        FieldType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        FieldType::Text => any::<String>().prop_map(Value::Text).boxed(),
        FieldType::Bytes => prop::collection::vec(any::<u8>(), 0..99)
            .prop_map(Value::Bytes)
            .boxed(),
        FieldType::Array(number, None) => array(number, 0..=40).boxed(),
        FieldType::Array(number, Some(len)) => array(number, len as usize..=len as usize).boxed(),
        FieldType::Number(Number::U8) => any::<u8>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::U16) => any::<u16>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::U32) => any::<u32>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::U64) => any::<u64>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::I8) => any::<i8>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::I16) => any::<i16>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::I32) => any::<i32>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::I64) => any::<i64>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::F32) => any::<f32>().prop_map(Value::from).boxed(),
        FieldType::Number(Number::F64) => any::<f64>().prop_map(Value::from).boxed(),
    }
}

fn kind() -> impl Strategy<Value = FieldType> {
    let number = || prop::sample::select(Number::ALL.to_vec());
    prop_oneof![
        Just(FieldType::Bool),
        Just(FieldType::Text),
        Just(FieldType::Bytes),
        number().prop_map(FieldType::Number),
        (number(), prop::option::of(0_u32..9))
            .prop_map(|(number, len)| FieldType::Array(number, len)),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    prop::collection::vec(kind(), 0..12).prop_flat_map(|kinds| {
        let fields = kinds.iter().enumerate();
        let fields: Vec<String> = fields
            .map(|(nth, kind)| format!("f{nth}: {kind}"))
            .collect();
        let schema = schema(&format!("Any {{ {} }}", fields.join(", ")));
        let values: Vec<_> = kinds.into_iter().map(value).collect();
        values.prop_map(move |values| {
            let mut message = Message::new(&schema);
            for (nth, value) in values.into_iter().enumerate() {
                message.set(&format!("f{nth}"), value).unwrap();
            }
            message
        })
    })
}

proptest! {
    #[test]
    fn any_message_is_read_as_it_was_written(message in message()) {
        let octets = message.pack().unwrap();
        let read = Checker::new(message.schema()).take(&octets).unwrap().unwrap();
        // not-a-number is not equal to itself
        prop_assert_eq!(read.pack().unwrap(), octets);
        let text = message.schema().to_string();
        prop_assert_eq!(&text.parse::<Schema>().unwrap(), &**message.schema());
    }

    #[test]
    fn changed_octets_are_refused_or_read(message in message(), at: prop::sample::Index, octet: u8) {
        let mut octets = message.pack().unwrap();
        let at = at.index(octets.len());
        octets[at] = octet;
        Checker::new(message.schema()).take(&octets).ok();
        prop_assert!(Checker::new(message.schema()).take(&octets[..at]).is_err());
    }
}
