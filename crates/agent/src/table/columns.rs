//! Columns of a table, one after the other, in Arrow's types.

use std::sync::Arc;

use arrow_array::builder::{
    ListBuilder, MapBuilder, MapFieldNames, PrimitiveBuilder, StringBuilder,
};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, Field, Schema};

use crate::rows::Labels;

/// Fields with their values.
#[derive(Default)]
pub struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn push(&mut self, name: &str, nullable: bool, array: ArrayRef) {
        self.fields
            .push(Field::new(name, array.data_type().clone(), nullable));
        self.arrays.push(array);
    }

    /// A text that is always there.
    pub fn text<'v>(&mut self, name: &str, values: impl Iterator<Item = &'v str>) {
        self.push(name, false, Arc::new(StringArray::from_iter_values(values)));
    }

    /// A text that may be missing.
    pub fn text_or_null<'v>(&mut self, name: &str, values: impl Iterator<Item = Option<&'v str>>) {
        self.push(name, true, Arc::new(StringArray::from_iter(values)));
    }

    /// A whole number that is always there.
    pub fn long(&mut self, name: &str, values: impl Iterator<Item = i64>) {
        self.push(name, false, Arc::new(Int64Array::from_iter_values(values)));
    }

    /// A whole number that may be missing.
    pub fn long_or_null(&mut self, name: &str, values: impl Iterator<Item = Option<i64>>) {
        self.push(name, true, Arc::new(Int64Array::from_iter(values)));
    }

    /// A number that is always there.
    pub fn double(&mut self, name: &str, values: impl Iterator<Item = f64>) {
        self.push(
            name,
            false,
            Arc::new(Float64Array::from_iter_values(values)),
        );
    }

    /// A number that may be missing; one that is no number is missing too.
    pub fn double_or_null(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        let finite = values.map(|value| value.filter(|value| value.is_finite()));
        self.push(name, true, Arc::new(Float64Array::from_iter(finite)));
    }

    /// A truth that may be missing.
    pub fn bool_or_null(&mut self, name: &str, values: impl Iterator<Item = Option<bool>>) {
        self.push(name, true, Arc::new(BooleanArray::from_iter(values)));
    }

    /// Lists of numbers that may be missing as a whole.
    pub fn lists_or_null<'v, T: ArrowPrimitiveType>(
        &mut self,
        name: &str,
        values: impl Iterator<Item = Option<&'v [T::Native]>>,
    ) {
        let element = Field::new("element", T::DATA_TYPE, true);
        let mut list = ListBuilder::new(PrimitiveBuilder::<T>::new()).with_field(element);
        for value in values {
            if let Some(value) = value {
                list.values().append_slice(value);
            }
            list.append(value.is_some());
        }
        self.push(name, true, Arc::new(list.finish()));
    }

    /// Labels, which may be none but are never missing.
    pub fn labels<'v>(&mut self, name: &str, values: impl Iterator<Item = &'v Labels>) {
        let names = MapFieldNames {
            entry: "key_value".to_owned(),
            key: "key".to_owned(),
            value: "value".to_owned(),
        };
        let mut map = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
        for labels in values {
            for (label, value) in labels {
                map.keys().append_value(label);
                map.values().append_value(value);
            }
            map.append(true).expect("as many keys as values");
        }
        self.push(name, false, Arc::new(map.finish()));
    }

    /// All columns.
    pub fn batch(self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
    }
}
