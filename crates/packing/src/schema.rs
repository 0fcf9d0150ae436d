//! Schemas: the name of a message, and the names and types of its fields.
//!
//! ```text
//! Pose { time: f64, joints: [f32], matrix: [f64; 16], name: text, image: bytes, valid: bool }
//! ```
//!
//! Two schemas are the same if their texts are, apart from white space. The number of a schema is the FNV-1a hash of its
//! text without white space. It finds errors of programmers, and is no protection against forgery.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::number::Number;

/// Names and types of the fields of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    name: String,
    fields: Vec<Field>,
}

/// Field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type of its values.
    pub kind: FieldType,
}

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// True or false.
    Bool,
    /// Number.
    Number(Number),
    /// Text in UTF-8.
    Text,
    /// Octets.
    Bytes,
    /// Numbers: this many, or any number of them.
    Array(Number, Option<u32>),
}

impl Schema {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fields in their order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the place of a field.
    pub fn place(&self, field: &str) -> Result<usize> {
        let place = self.fields.iter().position(|one| one.name == field);
        place.ok_or_else(|| Error::NoField {
            schema: self.name.clone(),
            field: field.to_owned(),
        })
    }

    /// Returns the number of the schema, which each message has.
    pub fn number(&self) -> u64 {
        let hash = |hash: u64, octet| (hash ^ u64::from(octet)).wrapping_mul(FNV_PRIME);
        self.to_string().bytes().fold(FNV_OFFSET, hash)
    }

    /// Returns the first difference to the schema of the other side, in words.
    pub(crate) fn difference(&self, other: &Self) -> String {
        if self.name != other.name {
            return format!("it sends {}, and {} is expected", other.name, self.name);
        }
        for (nth, field) in self.fields.iter().enumerate() {
            let name = &field.name;
            match other.fields.iter().position(|one| one.name == *name) {
                None => return format!("its {} has no field {name}", self.name),
                Some(at) if other.fields[at].kind != field.kind => {
                    let kind = other.fields[at].kind;
                    return format!("its field {name} is {kind}, and {} is expected", field.kind);
                }
                Some(at) if at != nth && self.fields.len() == other.fields.len() => {
                    return format!("its field {name} has another place");
                }
                Some(_) => {}
            }
        }
        let has = |field: &&Field| self.place(&field.name).is_err();
        match other.fields.iter().find(has) {
            Some(field) => format!("its {} has a field {} more", self.name, field.name),
            None => "the order of its fields differs".to_owned(),
        }
    }
}

impl fmt::Display for Schema {
    /// Writes the text without white space.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{{", self.name)?;
        for (nth, field) in self.fields.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}", field.name, field.kind)?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Number(number) => f.write_str(number.name()),
            Self::Text => f.write_str("text"),
            Self::Bytes => f.write_str("bytes"),
            Self::Array(number, None) => write!(f, "[{number}]"),
            Self::Array(number, Some(len)) => write!(f, "[{number};{len}]"),
        }
    }
}

impl FromStr for Schema {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut rest = Rest { text, at: 0 };
        if text.len() > TEXT_MAX {
            return Err(rest.wrong("it is longer than 16 KiB"));
        }
        let name = rest.name()?;
        rest.expect("{", "there is no {")?;
        let mut fields: Vec<Field> = Vec::new();
        while !rest.takes("}") {
            let at = rest.at;
            let name = rest.name()?;
            if fields.iter().any(|field| field.name == name) {
                rest.at = at;
                return Err(rest.wrong("two fields have this name"));
            }
            rest.expect(":", "there is no : after the name of a field")?;
            let kind = rest.kind()?;
            fields.push(Field { name, kind });
            if !rest.takes(",") {
                rest.expect("}", "there is neither , nor }")?;
                break;
            }
        }
        rest.skip();
        if rest.at < text.len() {
            return Err(rest.wrong("there is more after the }"));
        }
        if fields.len() > FIELDS_MAX {
            return Err(rest.wrong("it has more than 255 fields"));
        }
        Ok(Self { name, fields })
    }
}

/// Rest of a text that is read.
struct Rest<'a> {
    text: &'a str,
    at: usize,
}

impl Rest<'_> {
    fn wrong(&self, why: &'static str) -> Error {
        Error::Syntax { at: self.at, why }
    }

    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes a mark, if it comes next.
    fn takes(&mut self, mark: &str) -> bool {
        self.skip();
        let has = self.text[self.at..].starts_with(mark);
        self.at += if has { mark.len() } else { 0 };
        has
    }

    fn expect(&mut self, mark: &str, why: &'static str) -> Result<()> {
        if self.takes(mark) {
            Ok(())
        } else {
            Err(self.wrong(why))
        }
    }

    /// Takes the letters, digits and underscores that come next.
    fn word(&mut self) -> String {
        self.skip();
        let rest = &self.text[self.at..];
        let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        let word = &rest[..rest.find(is_other).unwrap_or(rest.len())];
        self.at += word.len();
        word.to_owned()
    }

    fn name(&mut self) -> Result<String> {
        self.skip();
        let at = self.at;
        let name = self.word();
        if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
            self.at = at;
            return Err(self.wrong("there is no name of letters, digits and _"));
        }
        if name.len() > NAME_MAX {
            self.at = at;
            return Err(self.wrong("the name is longer than 64 octets"));
        }
        Ok(name)
    }

    fn kind(&mut self) -> Result<FieldType> {
        if self.takes("[") {
            let number = self.number()?;
            let len = if self.takes(";") {
                let len = self.word().parse().ok();
                Some(len.ok_or_else(|| self.wrong("the length of an array is no number"))?)
            } else {
                None
            };
            self.expect("]", "there is no ] after an array")?;
            return Ok(FieldType::Array(number, len));
        }
        let at = self.at;
        match self.word().as_str() {
            "bool" => Ok(FieldType::Bool),
            "text" => Ok(FieldType::Text),
            "bytes" => Ok(FieldType::Bytes),
            _ => {
                self.at = at;
                self.number().map(FieldType::Number)
            }
        }
    }

    fn number(&mut self) -> Result<Number> {
        self.skip();
        let at = self.at;
        let word = self.word();
        let found = Number::ALL.into_iter().find(|number| number.name() == word);
        found.ok_or_else(|| {
            self.at = at;
            self.wrong(
                "there is no type: bool, text, bytes, a number as in f64, or an array as in [f32]",
            )
        })
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
/// Most octets of the text of a schema.
pub(crate) const TEXT_MAX: usize = 16 << 10;
/// Most octets of a name.
const NAME_MAX: usize = 64;
/// Most fields of a schema.
const FIELDS_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> Schema {
        text.parse().unwrap()
    }

    #[test]
    fn text_of_a_schema_is_read_and_written() {
        let text = "Pose { time : f64,\n joints:[ f32 ], m: [f64; 16], name: text, image: bytes, valid: bool, }";
        let pose = schema(text);
        let short = "Pose{time:f64,joints:[f32],m:[f64;16],name:text,image:bytes,valid:bool}";
        assert_eq!(pose.to_string(), short);
        assert_eq!(schema(short), pose);
        assert_eq!(schema("Empty {}").fields().len(), 0);
        // FNV-1a of "A{}", as other languages compute it
        assert_eq!(schema("A { }").number(), 0xf9e1_cc19_a031_fc38);
    }

    #[test]
    fn wrong_texts_are_refused_at_their_place() {
        for (text, place) in [
            ("", 0),
            ("1A {}", 0),
            ("A", 1),
            ("A { x }", 6),
            ("A { x: f16 }", 7),
            ("A { x: [text] }", 8),
            ("A { x: [f32; y] }", 14),
            ("A { x: u8, x: u8 }", 11),
            ("A { x: u8 y: u8 }", 10),
            ("A {} B", 5),
            ("Å {}", 0),
        ] {
            let why = text.parse::<Schema>().unwrap_err();
            let Error::Syntax { at, .. } = why else {
                panic!("{why}");
            };
            assert_eq!(at, place, "{text}: {why}");
        }
        let many: Vec<String> = (0..300).map(|nth| format!("f{nth}: u8")).collect();
        let many = format!("A {{ {} }}", many.join(", "));
        assert!(many.parse::<Schema>().is_err());
        assert!(
            format!("{} {{}}", "x".repeat(65))
                .parse::<Schema>()
                .is_err()
        );
    }

    #[test]
    fn first_difference_is_named() {
        let pose = schema("Pose { time: f64, joints: [f32] }");
        for (other, why) in [
            (
                "Image { time: f64 }",
                "it sends Image, and Pose is expected",
            ),
            ("Pose { time: f64 }", "its Pose has no field joints"),
            (
                "Pose { time: f64, joints: [f64] }",
                "its field joints is [f64], and [f32] is expected",
            ),
            (
                "Pose { joints: [f32], time: f64 }",
                "its field time has another place",
            ),
            (
                "Pose { time: f64, joints: [f32], x: u8 }",
                "its Pose has a field x more",
            ),
        ] {
            assert_eq!(pose.difference(&schema(other)), why);
        }
    }
}
