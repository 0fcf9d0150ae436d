//! How `openapi.json` describes what is written in more than one way.

use utoipa::openapi::schema::{KnownFormat, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{Object, ObjectBuilder, RefOr, Schema};

/// Bytes.
pub(crate) fn bytes() -> RefOr<Schema> {
    either("1.2TB")
}

/// Bits a second.
pub(crate) fn bps() -> RefOr<Schema> {
    either("10Gb/s")
}

/// Seconds.
pub(crate) fn span() -> RefOr<Schema> {
    either("PT2H")
}

/// ISO 8601.
pub(crate) fn moment() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2031-05-01T06:00:00Z"])
        .build()
}

/// A number or text.
fn either(example: &str) -> RefOr<Schema> {
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .build();
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .examples([example])
        .build();
    OneOfBuilder::new().item(number).item(text).into()
}
