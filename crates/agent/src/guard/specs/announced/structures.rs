//! Structures of the Parquet format, as far as the library reads them: numbers and types of their fields.
//!
//! Source: parquet.thrift of the Parquet format, version 2.12. Encryption is left out: the library is built without it.

use steelyard_thrift::Type;

use Shape::{Binary, Bool, Double, I8, I16, I32, I64, List, Struct};

/// Type of a field.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// true or false.
    Bool,
    /// 8 bits.
    I8,
    /// 16 bits.
    I16,
    /// 32 bits; enumerations too.
    I32,
    /// 64 bits.
    I64,
    /// Floating point.
    Double,
    /// Bytes; text too.
    Binary,
    /// A list of elements of one type.
    List(&'static Shape),
    /// A structure or a union.
    Struct(&'static Structure),
}

impl Shape {
    /// Its type on the wire.
    pub fn kind(self) -> Type {
        match self {
            Bool => Type::Bool,
            I8 => Type::I8,
            I16 => Type::I16,
            I32 => Type::I32,
            I64 => Type::I64,
            Double => Type::Double,
            Binary => Type::Binary,
            List(_) => Type::List,
            Struct(_) => Type::Struct,
        }
    }
}

/// A structure or a union.
#[derive(Debug)]
pub struct Structure {
    /// Its name in parquet.thrift.
    pub name: &'static str,
    /// Numbers and types of its fields.
    pub fields: &'static [(i16, Shape)],
    /// Whether exactly one field is there.
    pub is_union: bool,
}

impl Structure {
    const fn new(name: &'static str, fields: &'static [(i16, Shape)]) -> Self {
        Self {
            name,
            fields,
            is_union: false,
        }
    }

    const fn union(name: &'static str, fields: &'static [(i16, Shape)]) -> Self {
        Self {
            name,
            fields,
            is_union: true,
        }
    }

    /// Whether this is `other`.
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }

    /// The type of field `id`, None where the library passes over it.
    pub fn shape(&self, id: i16) -> Option<Shape> {
        let field = self.fields.iter().find(|(known, _)| *known == id);
        field.map(|(_, shape)| *shape)
    }
}

/// A structure that nothing is known of.
pub static UNKNOWN: Structure = Structure::new("a structure", &[]);
static EMPTY: Structure = Structure::new("an empty structure", &[]);

pub static FILE_METADATA: Structure = Structure::new(
    "FileMetaData",
    &[
        (1, I32),
        (2, List(&Struct(&SCHEMA_ELEMENT))),
        (3, I64),
        (4, List(&Struct(&ROW_GROUP))),
        (5, List(&Struct(&KEY_VALUE))),
        (6, Binary),
        (7, List(&Struct(&COLUMN_ORDER))),
    ],
);

pub static SCHEMA_ELEMENT: Structure = Structure::new(
    "SchemaElement",
    &[
        (1, I32),
        (2, I32),
        (3, I32),
        (SCHEMA_NAME, Binary),
        (SCHEMA_CHILDREN, I32),
        (6, I32),
        (7, I32),
        (8, I32),
        (9, I32),
        (10, Struct(&LOGICAL_TYPE)),
    ],
);
/// Fields of `SchemaElement`.
pub const SCHEMA_NAME: i16 = 4;
pub const SCHEMA_CHILDREN: i16 = 5;

static LOGICAL_TYPE: Structure = Structure::union(
    "LogicalType",
    &[
        (1, Struct(&EMPTY)),
        (2, Struct(&EMPTY)),
        (3, Struct(&EMPTY)),
        (4, Struct(&EMPTY)),
        (5, Struct(&DECIMAL_TYPE)),
        (6, Struct(&EMPTY)),
        (7, Struct(&TIME_TYPE)),
        (8, Struct(&TIME_TYPE)),
        (10, Struct(&INT_TYPE)),
        (11, Struct(&EMPTY)),
        (12, Struct(&EMPTY)),
        (13, Struct(&EMPTY)),
        (14, Struct(&EMPTY)),
        (15, Struct(&EMPTY)),
        (16, Struct(&VARIANT_TYPE)),
        (17, Struct(&GEO_TYPE)),
        (18, Struct(&GEO_TYPE)),
        (19, Struct(&EMPTY)),
    ],
);
static DECIMAL_TYPE: Structure = Structure::new("DecimalType", &[(1, I32), (2, I32)]);
static TIME_TYPE: Structure = Structure::new("TimeType", &[(1, Bool), (2, Struct(&TIME_UNIT))]);
static TIME_UNIT: Structure = Structure::union(
    "TimeUnit",
    &[
        (1, Struct(&EMPTY)),
        (2, Struct(&EMPTY)),
        (3, Struct(&EMPTY)),
    ],
);
static INT_TYPE: Structure = Structure::new("IntType", &[(1, I8), (2, Bool)]);
static VARIANT_TYPE: Structure = Structure::new("VariantType", &[(1, I8)]);
static GEO_TYPE: Structure = Structure::new("GeographyType", &[(1, Binary), (2, I32)]);

static KEY_VALUE: Structure = Structure::new("KeyValue", &[(1, Binary), (2, Binary)]);
static COLUMN_ORDER: Structure = Structure::union(
    "ColumnOrder",
    &[
        (1, Struct(&EMPTY)),
        (2, Struct(&EMPTY)),
        (3, Struct(&EMPTY)),
    ],
);

static ROW_GROUP: Structure = Structure::new(
    "RowGroup",
    &[
        (1, List(&Struct(&COLUMN_CHUNK))),
        (2, I64),
        (3, I64),
        (4, List(&Struct(&SORTING_COLUMN))),
        (5, I64),
        (6, I64),
        (7, I16),
    ],
);
static SORTING_COLUMN: Structure =
    Structure::new("SortingColumn", &[(1, I32), (2, Bool), (3, Bool)]);

pub static COLUMN_CHUNK: Structure = Structure::new(
    "ColumnChunk",
    &[
        (1, Binary),
        (2, I64),
        (3, Struct(&COLUMN_METADATA)),
        (4, I64),
        (5, I32),
        (6, I64),
        (7, I32),
    ],
);
static COLUMN_METADATA: Structure = Structure::new(
    "ColumnMetaData",
    &[
        (1, I32),
        (2, List(&I32)),
        (3, List(&Binary)),
        (4, I32),
        (5, I64),
        (6, I64),
        (7, I64),
        (8, List(&Struct(&KEY_VALUE))),
        (9, I64),
        (10, I64),
        (11, I64),
        (12, Struct(&STATISTICS)),
        (13, List(&Struct(&PAGE_ENCODING_STATS))),
        (14, I64),
        (15, I32),
        (16, Struct(&SIZE_STATISTICS)),
        (17, Struct(&GEOSPATIAL_STATISTICS)),
    ],
);
static STATISTICS: Structure = Structure::new(
    "Statistics",
    &[
        (1, Binary),
        (2, Binary),
        (3, I64),
        (4, I64),
        (5, Binary),
        (6, Binary),
        (7, Bool),
        (8, Bool),
        (9, I64),
    ],
);
static PAGE_ENCODING_STATS: Structure =
    Structure::new("PageEncodingStats", &[(1, I32), (2, I32), (3, I32)]);
static SIZE_STATISTICS: Structure = Structure::new(
    "SizeStatistics",
    &[(1, I64), (2, List(&I64)), (3, List(&I64))],
);
static GEOSPATIAL_STATISTICS: Structure = Structure::new(
    "GeospatialStatistics",
    &[(1, Struct(&BOUNDING_BOX)), (2, List(&I32))],
);
static BOUNDING_BOX: Structure = Structure::new(
    "BoundingBox",
    &[
        (1, Double),
        (2, Double),
        (3, Double),
        (4, Double),
        (5, Double),
        (6, Double),
        (7, Double),
        (8, Double),
    ],
);

pub static PAGE_HEADER: Structure = Structure::new(
    "PageHeader",
    &[
        (PAGE_TYPE, I32),
        (PAGE_UNCOMPRESSED, I32),
        (PAGE_COMPRESSED, I32),
        (4, I32),
        (5, Struct(&DATA_PAGE_HEADER)),
        (6, Struct(&EMPTY)),
        (7, Struct(&DICTIONARY_PAGE_HEADER)),
        (8, Struct(&DATA_PAGE_HEADER_V2)),
    ],
);
/// Fields of `PageHeader`.
pub const PAGE_TYPE: i16 = 1;
pub const PAGE_UNCOMPRESSED: i16 = 2;
pub const PAGE_COMPRESSED: i16 = 3;
/// Number of values, the first field of each page's own header.
pub const PAGE_VALUES: i16 = 1;

pub static DATA_PAGE_HEADER: Structure = Structure::new(
    "DataPageHeader",
    &[
        (PAGE_VALUES, I32),
        (DATA_PAGE_ENCODING, I32),
        (3, I32),
        (4, I32),
        (5, Struct(&STATISTICS)),
    ],
);
pub const DATA_PAGE_ENCODING: i16 = 2;

pub static DICTIONARY_PAGE_HEADER: Structure = Structure::new(
    "DictionaryPageHeader",
    &[
        (PAGE_VALUES, I32),
        (DICTIONARY_PAGE_ENCODING, I32),
        (3, Bool),
    ],
);
pub const DICTIONARY_PAGE_ENCODING: i16 = 2;

pub static DATA_PAGE_HEADER_V2: Structure = Structure::new(
    "DataPageHeaderV2",
    &[
        (PAGE_VALUES, I32),
        (2, I32),
        (3, I32),
        (DATA_PAGE_V2_ENCODING, I32),
        (5, I32),
        (6, I32),
        (7, Bool),
        (8, Struct(&STATISTICS)),
    ],
);
pub const DATA_PAGE_V2_ENCODING: i16 = 4;
