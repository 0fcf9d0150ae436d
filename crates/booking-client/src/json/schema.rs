//! Schemas in `openapi.json` for values with two notations.

use std::borrow::Cow;

use utoipa::openapi::schema::{KnownFormat, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::amount::{Bps, Bytes, IsoDuration};
use super::timestamp::Timestamp;

impl PartialSchema for Bytes {
    fn schema() -> RefOr<Schema> {
        either("Size in bytes: a number, or text with a unit", "1.2TB")
    }
}

impl PartialSchema for Bps {
    fn schema() -> RefOr<Schema> {
        either(
            "Rate in bits a second: a number, or text with a unit",
            "10Gb/s",
        )
    }
}

impl PartialSchema for IsoDuration {
    fn schema() -> RefOr<Schema> {
        either(
            "Length of time: seconds, or text with units as in `2h30m`, or ISO 8601",
            "PT2H",
        )
    }
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        let timestamp = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("Point in time (ISO 8601); responses are in UTC"))
            .examples(["2031-05-01T06:00:00Z"]);
        timestamp.into()
    }
}

impl ToSchema for Bytes {
    fn name() -> Cow<'static, str> {
        "Bytes".into()
    }
}

impl ToSchema for Bps {
    fn name() -> Cow<'static, str> {
        "Bps".into()
    }
}

impl ToSchema for IsoDuration {
    fn name() -> Cow<'static, str> {
        "IsoDuration".into()
    }
}

impl ToSchema for Timestamp {
    fn name() -> Cow<'static, str> {
        "Timestamp".into()
    }
}

/// Returns the schema of a number or text.
fn either(what: &str, example: &str) -> RefOr<Schema> {
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0));
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .examples([example]);
    let either = OneOfBuilder::new().item(number.build()).item(text.build());
    either.description(Some(what)).into()
}
