//! Values to bytes.

use crate::Type;

/// Appends values in the compact protocol.
///
/// Fields of a structure are written by the methods `field_*`, elements of collections by the others.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Id of the field written last in the structure at hand.
    last_id: i16,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, last_id: 0 }
    }

    /// A writer that appends to `out` more fields of a structure whose last field was `id`.
    #[inline]
    pub fn after(out: &'a mut Vec<u8>, id: i16) -> Self {
        Self { out, last_id: id }
    }

    /// Writes a structure whose fields `body` writes.
    #[inline]
    pub fn structure(&mut self, body: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.last_id, 0);
        body(self);
        self.out.push(0);
        self.last_id = outer;
    }

    /// A boolean as an element; as a field it is [`Self::field_bool`].
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.out.push(if value { 1 } else { 2 });
    }

    /// 8 bits.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.out.push(value as u8);
    }

    /// 16 bits.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.i32(i32::from(value));
    }

    /// 32 bits.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.varint(u64::from(((value << 1) ^ (value >> 31)) as u32));
    }

    /// 64 bits.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Floating point: little-endian, as every implementation writes it.
    #[inline]
    pub fn double(&mut self, value: f64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes. More than the 2 GiB that a length can hold is a bug of the caller.
    #[inline]
    pub fn binary(&mut self, value: &[u8]) {
        assert!(
            i32::try_from(value.len()).is_ok(),
            "a value above 2 GiB cannot be encoded"
        );
        self.varint(value.len() as u64);
        self.out.extend_from_slice(value);
    }

    /// Text.
    #[inline]
    pub fn string(&mut self, value: &str) {
        self.binary(value.as_bytes());
    }

    /// The beginning of a list or set: `count` elements of type `element` follow.
    #[inline]
    pub fn list(&mut self, element: Type, count: u32) {
        if count < 15 {
            self.out.push((count as u8) << 4 | element as u8);
        } else {
            self.out.push(0xf0 | element as u8);
            self.varint(u64::from(count));
        }
    }

    /// The beginning of a map: `count` times a key and its value follow.
    #[inline]
    pub fn map(&mut self, key: Type, value: Type, count: u32) {
        self.varint(u64::from(count));
        if count > 0 {
            self.out.push((key as u8) << 4 | value as u8);
        }
    }

    /// The beginning of a field that is not a boolean; its value follows.
    #[inline]
    pub fn field(&mut self, id: i16, kind: Type) {
        self.field_code(id, kind as u8);
    }

    /// A field that is a boolean.
    #[inline]
    pub fn field_bool(&mut self, id: i16, value: bool) {
        self.field_code(id, if value { 1 } else { 2 });
    }

    /// A field of 8 bits.
    #[inline]
    pub fn field_i8(&mut self, id: i16, value: i8) {
        self.field(id, Type::I8);
        self.i8(value);
    }

    /// A field of 16 bits.
    #[inline]
    pub fn field_i16(&mut self, id: i16, value: i16) {
        self.field(id, Type::I16);
        self.i16(value);
    }

    /// A field of 32 bits.
    #[inline]
    pub fn field_i32(&mut self, id: i16, value: i32) {
        self.field(id, Type::I32);
        self.i32(value);
    }

    /// A field of 64 bits.
    #[inline]
    pub fn field_i64(&mut self, id: i16, value: i64) {
        self.field(id, Type::I64);
        self.i64(value);
    }

    /// A field of floating point.
    #[inline]
    pub fn field_double(&mut self, id: i16, value: f64) {
        self.field(id, Type::Double);
        self.double(value);
    }

    /// A field of bytes.
    #[inline]
    pub fn field_binary(&mut self, id: i16, value: &[u8]) {
        self.field(id, Type::Binary);
        self.binary(value);
    }

    /// A field of text.
    #[inline]
    pub fn field_string(&mut self, id: i16, value: &str) {
        self.field_binary(id, value.as_bytes());
    }

    /// A field that is a structure, whose fields `body` writes.
    #[inline]
    pub fn field_struct(&mut self, id: i16, body: impl FnOnce(&mut Self)) {
        self.field(id, Type::Struct);
        self.structure(body);
    }

    /// The beginning of a field that is a list: `count` elements of type `element` follow.
    #[inline]
    pub fn field_list(&mut self, id: i16, element: Type, count: u32) {
        self.field(id, Type::List);
        self.list(element, count);
    }

    /// The beginning of a field that is a map: `count` times a key and its value follow.
    #[inline]
    pub fn field_map(&mut self, id: i16, key: Type, value: Type, count: u32) {
        self.field(id, Type::Map);
        self.map(key, value, count);
    }

    /// Bytes that are written in the compact protocol already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    fn field_code(&mut self, id: i16, code: u8) {
        let delta = i32::from(id) - i32::from(self.last_id);
        if (1..=15).contains(&delta) {
            self.out.push((delta as u8) << 4 | code);
        } else {
            self.out.push(code);
            self.i16(id);
        }
        self.last_id = id;
    }

    /// A number in groups of 7 bits, lowest first.
    #[inline]
    pub(crate) fn varint(&mut self, mut value: u64) {
        if value < 0x80 {
            self.out.push(value as u8);
            return;
        }
        let mut bytes = [0u8; 10];
        let mut length = 0;
        while value >= 0x80 {
            bytes[length] = value as u8 | 0x80;
            value >>= 7;
            length += 1;
        }
        bytes[length] = value as u8;
        self.out.extend_from_slice(&bytes[..=length]);
    }
}
