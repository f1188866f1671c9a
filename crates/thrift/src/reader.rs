//! Bytes to values.

use crate::{DEPTH_MAX, ThriftError, Type};

/// Takes values in the compact protocol off a slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The value of a boolean field, which stands in the field's beginning.
    boolean: Option<bool>,
}

/// The beginning of a field: its value follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Id in the structure.
    pub id: i16,
    /// Type of the value.
    pub kind: Type,
}

/// A walk through the fields of one structure.
///
/// ```
/// use steelyard_thrift::{Fields, Reader, ThriftError, Type, Writer};
///
/// fn read_user(reader: &mut Reader<'_>) -> Result<i64, ThriftError> {
///     let (mut fields, mut user) = (Fields::default(), 0);
///     while let Some(field) = fields.next(reader)? {
///         match (field.id, field.kind) {
///             (1, Type::I64) => user = reader.i64()?,
///             // Fields of a later version, or of another type than ours, are passed over.
///             (_, kind) => reader.skip(kind)?,
///         }
///     }
///     Ok(user)
/// }
///
/// let mut bytes = Vec::new();
/// Writer::new(&mut bytes).structure(|fields| {
///     fields.field_i64(1, 7);
///     fields.field_string(40, "new");
/// });
/// assert_eq!(read_user(&mut Reader::new(&bytes)), Ok(7));
/// ```
#[derive(Debug, Default)]
pub struct Fields {
    last_id: i16,
}

impl Fields {
    /// The next field, None at the end of the structure. The value of the one before must have been read or skipped.
    #[inline]
    pub fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<Field>, ThriftError> {
        let byte = reader.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        let (delta, code) = (byte >> 4, byte & 0x0f);
        let kind = Type::from_code(code)?;
        reader.boolean = (kind == Type::Bool).then_some(code == 1);
        let id = if delta == 0 {
            reader.i16()?
        } else {
            self.last_id
                .checked_add(i16::from(delta))
                .ok_or(ThriftError::FieldId)?
        };
        self.last_id = id;
        Ok(Some(Field { id, kind }))
    }
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            boolean: None,
        }
    }

    /// What has not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// A boolean, as a field's value or as an element.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, ThriftError> {
        if let Some(value) = self.boolean.take() {
            return Ok(value);
        }
        match self.byte()? {
            1 => Ok(true),
            // The specification once said 0, every implementation writes 2.
            0 | 2 => Ok(false),
            other => Err(ThriftError::Boolean(other)),
        }
    }

    /// 8 bits.
    #[inline]
    pub fn i8(&mut self) -> Result<i8, ThriftError> {
        Ok(self.byte()? as i8)
    }

    /// 16 bits.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, ThriftError> {
        i16::try_from(self.i32()?).map_err(|_| ThriftError::Number)
    }

    /// 32 bits.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, ThriftError> {
        let value = self.varint32()?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// 64 bits.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, ThriftError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Floating point.
    #[inline]
    pub fn double(&mut self) -> Result<f64, ThriftError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ThriftError::Short)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    /// Bytes, without copying them.
    #[inline]
    pub fn binary(&mut self) -> Result<&'a [u8], ThriftError> {
        let length = self.varint32()? as usize;
        let (value, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(ThriftError::Short)?;
        self.rest = rest;
        Ok(value)
    }

    /// Text, without copying it.
    #[inline]
    pub fn string(&mut self) -> Result<&'a str, ThriftError> {
        std::str::from_utf8(self.binary()?).map_err(|_| ThriftError::Text)
    }

    /// The beginning of a list or set: type and number of the elements that follow. The number is never above
    /// what the bytes can hold, so that room for them may be made at once.
    #[inline]
    pub fn list(&mut self) -> Result<(Type, usize), ThriftError> {
        let byte = self.byte()?;
        let mut count = usize::from(byte >> 4);
        if count == 15 {
            count = self.varint32()? as usize;
        }
        let element = Type::from_code(byte & 0x0f)?;
        self.check_count(count, element.bytes_min())?;
        Ok((element, count))
    }

    /// The beginning of a map: types of keys and values and how many pairs follow; None for an empty one, which
    /// does not contain its types.
    #[inline]
    pub fn map(&mut self) -> Result<Option<(Type, Type, usize)>, ThriftError> {
        let count = self.varint32()? as usize;
        if count == 0 {
            return Ok(None);
        }
        let byte = self.byte()?;
        let (key, value) = (Type::from_code(byte >> 4)?, Type::from_code(byte & 0x0f)?);
        self.check_count(count, key.bytes_min() + value.bytes_min())?;
        Ok(Some((key, value, count)))
    }

    /// Passes over a value of type `kind`.
    pub fn skip(&mut self, kind: Type) -> Result<(), ThriftError> {
        self.skip_within(kind, DEPTH_MAX)
    }

    fn skip_within(&mut self, kind: Type, depth: u32) -> Result<(), ThriftError> {
        let inner = || depth.checked_sub(1).ok_or(ThriftError::Depth);
        match kind {
            Type::Bool => self.bool().map(drop),
            Type::I8 => self.byte().map(drop),
            Type::I16 => self.i16().map(drop),
            Type::I32 => self.i32().map(drop),
            Type::I64 => self.i64().map(drop),
            Type::Double => self.double().map(drop),
            Type::Binary => self.binary().map(drop),
            Type::List | Type::Set => {
                let depth = inner()?;
                let (element, count) = self.list()?;
                for _ in 0..count {
                    self.skip_within(element, depth)?;
                }
                Ok(())
            }
            Type::Map => {
                let depth = inner()?;
                let Some((key, value, count)) = self.map()? else {
                    return Ok(());
                };
                for _ in 0..count {
                    self.skip_within(key, depth)?;
                    self.skip_within(value, depth)?;
                }
                Ok(())
            }
            Type::Struct => {
                let depth = inner()?;
                let mut fields = Fields::default();
                while let Some(field) = fields.next(self)? {
                    self.skip_within(field.kind, depth)?;
                }
                Ok(())
            }
        }
    }

    fn check_count(&self, count: usize, bytes_min: usize) -> Result<(), ThriftError> {
        if count > self.rest.len() / bytes_min {
            return Err(ThriftError::Count(count as u64));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, ThriftError> {
        let (&byte, rest) = self.rest.split_first().ok_or(ThriftError::Short)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn varint32(&mut self) -> Result<u32, ThriftError> {
        u32::try_from(self.varint()?).map_err(|_| ThriftError::Number)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, ThriftError> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    #[inline]
    fn long_varint(&mut self) -> Result<u64, ThriftError> {
        let Some((word, _)) = self.rest.split_first_chunk::<8>() else {
            return self.last_varint();
        };
        let word = u64::from_le_bytes(*word);
        // The highest bit of each byte says whether another follows.
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.last_varint();
        }
        // Without branches, since the lengths of numbers are hard to predict: keep the bytes up to the first end, then
        // close the gaps between their groups of 7 bits, pair by pair.
        let bits = ends.trailing_zeros() + 1;
        let word = word & (u64::MAX >> (64 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
        let word = (word & 0x7f00_7f00_7f00_7f00) >> 1 | word & 0x007f_007f_007f_007f;
        let word = (word & 0x3fff_0000_3fff_0000) >> 2 | word & 0x0000_3fff_0000_3fff;
        let word = (word & 0x0fff_ffff_0000_0000) >> 4 | word & 0x0000_0000_0fff_ffff;
        self.rest = &self.rest[bits as usize / 8..];
        Ok(word)
    }

    /// A number near the end of the bytes, or of more than 8 bytes.
    #[cold]
    fn last_varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return Err(ThriftError::Number);
            }
            value |= bits << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 {
            ThriftError::Short
        } else {
            ThriftError::Number
        })
    }
}
