//! Typed messages: what a stream carries, and texts of schemas.

use std::sync::Arc;

use lighthaul_packing::{Checker, Message, Schema};

/// Reads octets as the schema of a program, and as a message of a peer. What is read is packed again and read as the same.
pub fn packing(octets: &[u8]) {
    let (text, message) = octets.split_at(octets.iter().position(|octet| *octet == 0).unwrap_or(0));
    let text = std::str::from_utf8(text).unwrap_or_default();
    let known = text.parse::<Schema>().ok();
    if let Some(schema) = &known {
        assert_eq!(schema.to_string().parse::<Schema>().as_ref(), Ok(schema));
    }
    let schema = Arc::new(known.unwrap_or_else(|| SCHEMA.parse().expect("a schema")));
    let message = message.strip_prefix(b"\0").unwrap_or(message);
    let Ok(Some(read)) = Checker::new(&schema).take(message) else {
        return;
    };
    let packed = read.pack().expect("a message that was read has all values");
    let again = Message::unpack(&schema, &packed).expect("a packed message");
    assert_eq!(again.pack().as_ref(), Ok(&packed));
}

const SCHEMA: &str =
    "All { a: bool, b: u8, c: i64, d: f32, e: f64, f: text, g: bytes, h: [u16], i: [f64; 2] }";
