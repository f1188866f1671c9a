//! A walk through a structure of the Parquet format, that refuses what the library would misread.

use steelyard_thrift::{DEPTH_MAX, Fields, Reader, ThriftError, Type};

use super::structures::{Shape, Structure, UNKNOWN};
use super::{AnnouncedError, ELEMENTS_MAX, within};

/// What a walk meets in a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Number of a known field and its value: the length of bytes, the number of a list's elements, 0 for a structure.
    Field(i16, i64),
    /// The structure's end.
    End,
}

/// What is called with each event and the structure in which it happens.
pub type Visit<'v> = dyn FnMut(&'static Structure, Event) -> Result<(), AnnouncedError> + 'v;

/// Walks to the end of a structure at whose beginning `reader` is.
pub fn walk(
    reader: &mut Reader<'_>,
    structure: &'static Structure,
    visit: &mut Visit<'_>,
) -> Result<(), AnnouncedError> {
    Walk { reader, visit }.structure(structure, DEPTH_MAX)
}

/// A field, for messages.
#[derive(Debug, Clone, Copy)]
struct Place {
    structure: &'static Structure,
    id: i16,
}

impl Place {
    fn refuse(self, source: ThriftError) -> AnnouncedError {
        AnnouncedError::Protocol {
            structure: self.structure.name,
            source,
        }
    }

    fn wrong_type(self) -> AnnouncedError {
        AnnouncedError::Type {
            structure: self.structure.name,
            id: self.id,
        }
    }

    fn inner(self, depth: u32) -> Result<u32, AnnouncedError> {
        depth
            .checked_sub(1)
            .ok_or_else(|| self.refuse(ThriftError::Depth))
    }
}

struct Walk<'w, 'v, 'b> {
    reader: &'w mut Reader<'b>,
    visit: &'w mut Visit<'v>,
}

impl Walk<'_, '_, '_> {
    fn structure(
        &mut self,
        structure: &'static Structure,
        depth: u32,
    ) -> Result<(), AnnouncedError> {
        let mut fields = Fields::default();
        let (mut seen, mut members) = (0_u64, 0);
        loop {
            let next = fields.next(self.reader);
            let start = Place { structure, id: 0 };
            let Some(field) = next.map_err(|error| start.refuse(error))? else {
                break;
            };
            members += 1;
            let place = Place {
                structure,
                id: field.id,
            };
            let shape = structure.shape(field.id);
            if let Some(shape) = shape {
                if field.kind != shape.kind() {
                    return Err(place.wrong_type());
                }
                // The numbers of known fields are below 64.
                let bit = 1 << field.id;
                if seen & bit != 0 {
                    return Err(AnnouncedError::Twice {
                        structure: structure.name,
                        id: field.id,
                    });
                }
                seen |= bit;
            }
            let value = self.value(place, field.kind, shape, depth)?;
            if shape.is_some() {
                (self.visit)(structure, Event::Field(field.id, value))?;
            }
        }
        if structure.is_union && members != 1 {
            return Err(AnnouncedError::Members(structure.name, members));
        }
        (self.visit)(structure, Event::End)
    }

    /// Takes a value; without a shape, its type is all that is known of it. Returns what an event tells of it.
    fn value(
        &mut self,
        place: Place,
        kind: Type,
        shape: Option<Shape>,
        depth: u32,
    ) -> Result<i64, AnnouncedError> {
        let reader = &mut *self.reader;
        let value = match kind {
            Type::Bool => reader.bool().map(i64::from),
            Type::I8 => reader.i8().map(i64::from),
            Type::I16 => reader.i16().map(i64::from),
            Type::I32 => reader.i32().map(i64::from),
            Type::I64 => reader.i64(),
            Type::Double => reader.double().map(|_| 0),
            Type::Binary => reader.binary().map(|bytes| bytes.len() as i64),
            Type::List | Type::Set => return self.list(place, shape, place.inner(depth)?),
            Type::Map => return self.map(place, place.inner(depth)?),
            Type::Struct => {
                let structure = match shape {
                    Some(Shape::Struct(structure)) => structure,
                    _ => &UNKNOWN,
                };
                return self.structure(structure, place.inner(depth)?).map(|()| 0);
            }
        };
        value.map_err(|error| place.refuse(error))
    }

    fn list(
        &mut self,
        place: Place,
        shape: Option<Shape>,
        depth: u32,
    ) -> Result<i64, AnnouncedError> {
        // Some writers give an empty list no type of elements.
        if self.reader.rest().first() == Some(&0) {
            let empty = self.reader.i8().map(i64::from);
            return empty.map_err(|error| place.refuse(error));
        }
        let list = self.reader.list();
        let (kind, count) = list.map_err(|error| place.refuse(error))?;
        check_elements(place, kind, count)?;
        let element = match shape {
            Some(Shape::List(element)) => Some(*element),
            _ => None,
        };
        if element.is_some_and(|element| element.kind() != kind) {
            return Err(place.wrong_type());
        }
        for _ in 0..count {
            self.value(place, kind, element, depth)?;
        }
        Ok(count as i64)
    }

    fn map(&mut self, place: Place, depth: u32) -> Result<i64, AnnouncedError> {
        let map = self.reader.map();
        let Some((key, value, count)) = map.map_err(|error| place.refuse(error))? else {
            return Ok(0);
        };
        check_elements(place, key, count)?;
        check_elements(place, value, count)?;
        for _ in 0..count {
            self.value(place, key, None, depth)?;
            self.value(place, value, None, depth)?;
        }
        Ok(count as i64)
    }
}

/// Refuses too many elements, and booleans: each takes a byte, but the library takes none for those that it passes over. No list
/// of booleans is known in a footer or a page's header.
fn check_elements(place: Place, kind: Type, count: usize) -> Result<(), AnnouncedError> {
    if kind == Type::Bool && count > 0 {
        return Err(place.wrong_type());
    }
    within("elements of a list", count as i64, 0, ELEMENTS_MAX)
}
