use crate::ThriftError;

/// Type of a value on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// true or false.
    Bool = 1,
    /// 8 bits.
    I8 = 3,
    /// 16 bits.
    I16 = 4,
    /// 32 bits; enumerations too.
    I32 = 5,
    /// 64 bits.
    I64 = 6,
    /// 64-bit floating point.
    Double = 7,
    /// Bytes; strings too.
    Binary = 8,
    /// Elements in order.
    List = 9,
    /// Elements without order.
    Set = 10,
    /// Keys with values.
    Map = 11,
    /// Fields: structures, unions and exceptions.
    Struct = 12,
}

impl Type {
    /// The type of a field or element by its code. Both codes of a boolean (1 and 2) mean a boolean.
    #[inline]
    pub fn from_code(code: u8) -> Result<Self, ThriftError> {
        Ok(match code {
            1 | 2 => Self::Bool,
            3 => Self::I8,
            4 => Self::I16,
            5 => Self::I32,
            6 => Self::I64,
            7 => Self::Double,
            8 => Self::Binary,
            9 => Self::List,
            10 => Self::Set,
            11 => Self::Map,
            12 => Self::Struct,
            _ => return Err(ThriftError::Type(code)),
        })
    }

    /// Fewest bytes that an element of this type takes in a collection.
    pub(crate) fn bytes_min(self) -> usize {
        if self == Self::Double { 8 } else { 1 }
    }
}
