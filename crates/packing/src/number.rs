//! Types of numbers, and their octets in arrays.

use std::fmt;

/// Type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say all")]
pub enum Number {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Number {
    /// All types.
    pub const ALL: [Self; 10] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F32,
        Self::F64,
    ];

    /// Returns the name in schemas.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Returns the number of octets of a number.
    pub const fn width(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Returns the tag of an array in little-endian order (RFC 8746, section 2.1).
    pub const fn tag(self) -> u64 {
        match self {
            Self::U8 => 64,
            Self::U16 => 69,
            Self::U32 => 70,
            Self::U64 => 71,
            Self::I8 => 72,
            Self::I16 => 77,
            Self::I32 => 78,
            Self::I64 => 79,
            Self::F32 => 85,
            Self::F64 => 86,
        }
    }

    /// Returns the range of a type of whole numbers; none for floating-point numbers.
    pub(crate) const fn range(self) -> Option<(i128, i128)> {
        Some(match self {
            Self::U8 => (0, u8::MAX as i128),
            Self::U16 => (0, u16::MAX as i128),
            Self::U32 => (0, u32::MAX as i128),
            Self::U64 => (0, u64::MAX as i128),
            Self::I8 => (i8::MIN as i128, i8::MAX as i128),
            Self::I16 => (i16::MIN as i128, i16::MAX as i128),
            Self::I32 => (i32::MIN as i128, i32::MAX as i128),
            Self::I64 => (i64::MIN as i128, i64::MAX as i128),
            Self::F32 | Self::F64 => return None,
        })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Number of Rust that arrays have.
pub trait Element: Copy + sealed::Sealed {
    /// Type in schemas.
    const NUMBER: Number;

    /// Returns the octets of an array, in little-endian order.
    fn octets(array: &[Self]) -> Vec<u8>;

    /// Returns the array with these octets.
    fn array(octets: &[u8]) -> Vec<Self>;
}

mod sealed {
    #[expect(
        unnameable_types,
        reason = "no other crate has a further type of numbers"
    )]
    pub trait Sealed {}
}

/// Implements arrays. The compiler makes one copy of each loop on hosts whose order of octets is that of the format.
macro_rules! elements {
    ($($name:ident $number:ty),+) => {$(
        impl sealed::Sealed for $number {}
        impl Element for $number {
            const NUMBER: Number = Number::$name;

            fn octets(array: &[Self]) -> Vec<u8> {
                array.iter().flat_map(|number| number.to_le_bytes()).collect()
            }

            fn array(octets: &[u8]) -> Vec<Self> {
                let (numbers, _) = octets.as_chunks();
                numbers.iter().map(|octets| Self::from_le_bytes(*octets)).collect()
            }
        }
    )+};
}

elements!(U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F32 f32, F64 f64);
