use bytes::Bytes;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use steelyard_thrift::{Type, Writer};

use super::*;
use crate::guard::specs::file::decode;

/// A file that is only a footer, with the metadata that `fields` writes.
fn footer(fields: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut metadata = Vec::new();
    Writer::new(&mut metadata).structure(fields);
    let length = metadata.len() as u32;
    [&metadata[..], &length.to_le_bytes(), b"PAR1"].concat()
}

/// A schema of `children` columns of the root, each of which `fields` writes.
fn schema(writer: &mut Writer<'_>, children: i32, fields: impl Fn(&mut Writer<'_>)) {
    writer.field(2, Type::List);
    writer.list(Type::Struct, 2);
    writer.structure(|root| {
        root.field_string(4, "root");
        root.field_i32(5, children);
    });
    writer.structure(fields);
}

fn refused(bytes: &[u8]) -> String {
    let error = check_footer(bytes).unwrap_err().to_string();
    // The reader asks first.
    assert_eq!(decode(bytes.to_vec()).unwrap_err(), error);
    error
}

#[test]
fn a_list_of_booleans_that_take_no_bytes_is_refused() {
    // The library passes over two billion of them in 14 s.
    let bytes = footer(|file| {
        file.field_i32(1, 2);
        file.field(20, Type::List);
        file.i8(0xf1_u8 as i8);
        for byte in [0xff, 0xff, 0xff, 0xff, 0x07] {
            file.i8(byte as u8 as i8);
        }
    });
    assert_eq!(
        refused(&bytes),
        "malformed Parquet: FileMetaData: a collection of 2147483647 elements does not fit its bytes"
    );
    // Nor as many as there are bytes: the library would take the bytes for fields.
    let bytes = footer(|file| {
        file.field(20, Type::List);
        file.list(Type::Bool, 3);
        (0..3).for_each(|_| file.bool(true));
    });
    assert_eq!(
        refused(&bytes),
        "malformed Parquet: FileMetaData: field 20 has the wrong type"
    );
    let bytes = footer(|file| {
        file.field(20, Type::Map);
        file.map(Type::I8, Type::Bool, 1);
        file.i8(1);
        file.bool(true);
    });
    assert!(refused(&bytes).contains("field 20 has the wrong type"));
}

#[test]
fn known_fields_of_another_type_are_refused() {
    let bytes = footer(|file| file.field_string(3, "rows"));
    assert!(refused(&bytes).contains("FileMetaData: field 3 has the wrong type"));
    let bytes = footer(|file| {
        file.field(2, Type::List);
        file.list(Type::I32, 1);
        file.i32(7);
    });
    assert!(refused(&bytes).contains("FileMetaData: field 2 has the wrong type"));
    let bytes = footer(|file| {
        schema(file, 1, |column| column.field_bool(4, true));
    });
    assert!(refused(&bytes).contains("SchemaElement: field 4 has the wrong type"));
    let bytes = footer(|file| {
        file.field_i64(3, 1);
        file.field_i64(3, 2);
    });
    assert!(refused(&bytes).contains("FileMetaData: field 3 comes twice"));
}

#[test]
fn a_union_has_one_known_type_of_member() {
    let with = |members: &[(i16, bool)]| {
        footer(|file| {
            file.field(7, Type::List);
            file.list(Type::Struct, 1);
            file.structure(|order| {
                for &(id, is_structure) in members {
                    if is_structure {
                        order.field(id, Type::Struct);
                        order.structure(|_| {});
                    } else {
                        order.field_bool(id, true);
                    }
                }
            });
        })
    };
    check_footer(&with(&[(1, true)])).unwrap();
    // A member of a later version of the format.
    check_footer(&with(&[(9, true)])).unwrap();
    assert!(refused(&with(&[])).contains("ColumnOrder has 0 members"));
    assert!(refused(&with(&[(1, true), (2, true), (3, true)])).contains("ColumnOrder has 3"));
    assert!(refused(&with(&[(3, false)])).contains("ColumnOrder: field 3 has the wrong type"));
    let logical = footer(|file| {
        schema(file, 1, |column| {
            column.field_string(4, "job");
            column.field(10, Type::Struct);
            column.structure(|logical| {
                for id in [1, 12] {
                    logical.field(id, Type::Struct);
                    logical.structure(|_| {});
                }
            });
        });
    });
    assert!(refused(&logical).contains("LogicalType has 2 members"));
}

#[test]
fn the_tree_of_columns_is_bounded_and_whole() {
    let named = |name: &str, children| {
        footer(|file| schema(file, children, |column| column.field_string(4, name)))
    };
    check_footer(&named("job", 1)).unwrap();
    assert!(refused(&named("job", 2)).contains("fewer columns than announced"));
    assert!(refused(&named("job", 0)).contains("outside the root"));
    assert!(refused(&named("job", i32::MAX)).contains("children of a group of columns"));
    assert!(refused(&named("job", -1)).contains("children of a group of columns"));
    assert!(refused(&named(&"j".repeat(2000), 1)).contains("bytes of a column's name"));
    let nested = |levels: u32| {
        footer(|file| {
            file.field(2, Type::List);
            file.list(Type::Struct, levels);
            for level in 1..=levels {
                file.structure(|group| {
                    group.field_string(4, "g");
                    group.field_i32(5, i32::from(level < levels));
                });
            }
        })
    };
    check_footer(&nested(32)).unwrap();
    assert!(refused(&nested(33)).contains("levels of columns"));
    let wide = footer(|file| {
        file.field(2, Type::List);
        file.list(Type::Struct, 5000);
        (0..5000).for_each(|_| file.structure(|_| {}));
    });
    assert!(refused(&wide).contains("outside the root"));
}

#[test]
fn nesting_lists_and_metadata_are_bounded() {
    let deep = footer(|file| {
        for _ in 0..70 {
            file.field(20, Type::Struct);
        }
    });
    assert!(refused(&deep).contains("nested too deep"));
    let long = footer(|file| {
        file.field(20, Type::List);
        file.list(Type::I8, 100_001);
        (0..100_001).for_each(|_| file.i8(1));
    });
    assert!(refused(&long).contains("elements of a list: 100001 is outside"));
    let large = vec![0; (16 << 20) + 1];
    let large = [&large[..], &(large.len() as u32).to_le_bytes(), b"PAR1"].concat();
    assert!(refused(&large).contains("bytes of metadata"));
    let chunks = footer(|file| {
        file.field(4, Type::List);
        file.list(Type::Struct, 2);
        for _ in 0..2 {
            file.structure(|group| {
                group.field(1, Type::List);
                group.list(Type::Struct, 60_000);
                (0..60_000).for_each(|_| group.structure(|_| {}));
            });
        }
    });
    assert!(refused(&chunks).contains("chunks of columns: 100001 is outside"));
}

#[test]
fn what_is_no_footer_is_refused() {
    for (bytes, reason) in [
        (&b""[..], "too short"),
        (b"PAR1", "too short"),
        (b"\0\0\0\0PARE", "no PAR1"),
        (b"\xff\0\0\0PAR1", "too short"),
        (b"\0\0\0\0PAR1", "the message is cut short"),
    ] {
        assert!(refused(bytes).contains(reason), "{reason}");
    }
    // An empty list without a type of its elements, as some writers have it, and fields of a later version.
    check_footer(&footer(|file| {
        file.field(4, Type::List);
        file.i8(0);
        file.field(99, Type::List);
        file.list(Type::Struct, 1);
        file.structure(|inner| inner.field_i16(1, 3));
    }))
    .unwrap();
}

/// One page of one column of 10 rows of text, which `change` may change, and what the library reads of its file.
#[derive(Clone)]
struct OneColumn {
    kind: i32,
    uncompressed: i32,
    body: &'static [u8],
    values: i32,
    encoding: i32,
    pages: u32,
    offset: i64,
    second_offset: Option<i64>,
}

const PAGE: OneColumn = OneColumn {
    kind: 0,
    uncompressed: 100,
    body: &[0; 4],
    values: 10,
    encoding: 0,
    pages: 1,
    offset: 0,
    second_offset: None,
};

impl OneColumn {
    fn page(&self, out: &mut Vec<u8>) {
        Writer::new(out).structure(|page| {
            page.field_i32(1, self.kind);
            page.field_i32(2, self.uncompressed);
            page.field_i32(3, self.body.len() as i32);
            match self.kind {
                2 => {
                    page.field(7, Type::Struct);
                    page.structure(|own| {
                        own.field_i32(1, self.values);
                        own.field_i32(2, 0);
                    });
                }
                _ => {
                    page.field(5, Type::Struct);
                    page.structure(|own| {
                        own.field_i32(1, self.values);
                        own.field_i32(2, self.encoding);
                        own.field_i32(3, 3);
                        own.field_i32(4, 3);
                    });
                }
            }
        });
        out.extend(self.body);
    }

    fn check(&self) -> Result<(), AnnouncedError> {
        let mut bytes = Vec::new();
        (0..self.pages).for_each(|_| self.page(&mut bytes));
        let size = bytes.len() as i64;
        let offsets = [Some(self.offset), self.second_offset];
        let offsets: Vec<i64> = offsets.into_iter().flatten().collect();
        let footer = footer(|file| {
            file.field_i32(1, 2);
            file.field(2, Type::List);
            file.list(Type::Struct, 1 + offsets.len() as u32);
            file.structure(|root| {
                root.field_string(4, "root");
                root.field_i32(5, offsets.len() as i32);
            });
            for name in ["job", "platform"].iter().take(offsets.len()) {
                file.structure(|column| {
                    column.field_i32(1, 6);
                    column.field_i32(3, 0);
                    column.field_string(4, name);
                });
            }
            file.field_i64(3, 10);
            file.field(4, Type::List);
            file.list(Type::Struct, 1);
            file.structure(|group| {
                group.field(1, Type::List);
                group.list(Type::Struct, offsets.len() as u32);
                for &offset in &offsets {
                    group.structure(|chunk| {
                        chunk.field_i64(2, 0);
                        chunk.field(3, Type::Struct);
                        chunk.structure(|column| {
                            column.field_i32(1, 6);
                            column.field(2, Type::List);
                            column.list(Type::I32, 0);
                            column.field_i32(4, 0);
                            column.field_i64(5, 10);
                            column.field_i64(6, size);
                            column.field_i64(7, size);
                            column.field_i64(9, offset);
                        });
                    });
                }
                group.field_i64(2, 0);
                group.field_i64(3, 10);
            });
        });
        bytes.extend(&footer);
        let bytes = Bytes::from(bytes);
        check_footer(&bytes)?;
        let columns: Vec<usize> = (0..offsets.len()).collect();
        check_pages(&bytes, &metadata(&bytes), &columns)
    }

    fn refused(&self) -> String {
        self.check().unwrap_err().to_string()
    }
}

fn metadata(file: &Bytes) -> ParquetMetaData {
    ParquetMetaDataReader::new().parse_and_finish(file).unwrap()
}

#[test]
fn chunks_of_columns_are_in_the_file_and_apart() {
    PAGE.check().unwrap();
    for offset in [1, -1, i64::MAX, i64::MIN] {
        let moved = OneColumn { offset, ..PAGE };
        assert!(moved.refused().contains("of a column: "), "{offset}");
    }
    // Before their pages are looked at, which would be wrong.
    let twice = OneColumn {
        second_offset: Some(0),
        values: 11,
        ..PAGE
    };
    assert!(twice.refused().contains("columns that overlap"));
}

#[test]
fn pages_announce_what_fits() {
    let refused = |change: fn(&mut OneColumn)| {
        let mut column = PAGE;
        change(&mut column);
        column.refused()
    };
    assert!(refused(|page| page.uncompressed = i32::MAX).contains("bytes of all pages"));
    assert!(refused(|page| page.uncompressed = -1).contains("uncompressed bytes of a page"));
    let half = OneColumn {
        uncompressed: 256 << 20,
        values: 3,
        ..PAGE
    };
    OneColumn {
        pages: 2,
        ..half.clone()
    }
    .check()
    .unwrap();
    assert!(
        OneColumn { pages: 3, ..half }
            .refused()
            .contains("bytes of all pages")
    );
    assert!(refused(|page| page.values = 11).contains("values of a page: 11 is outside 0 to 10"));
    assert!(refused(|page| page.values = -1).contains("values of a page"));
    assert!(refused(|page| page.pages = 2).contains("values of a page: 10 is outside 0 to 0"));
    assert!(refused(|page| page.kind = 3).contains("header is of another type"));
    let repeated = OneColumn {
        encoding: 7,
        ..PAGE
    };
    assert_eq!(
        repeated.refused(),
        "text in the encoding DELTA_BYTE_ARRAY is not read"
    );
    let dictionary = OneColumn { kind: 2, ..PAGE };
    dictionary.check().unwrap();
    let many = OneColumn {
        values: 26,
        ..dictionary.clone()
    };
    assert!(
        many.refused()
            .contains("values of a dictionary: 26 is outside 0 to 25")
    );
    let two = OneColumn {
        pages: 2,
        ..dictionary
    };
    assert!(two.refused().contains("two dictionaries"));
}

#[test]
fn lengths_of_texts_are_no_more_than_the_pages_values() {
    let with = |body| OneColumn {
        encoding: 6,
        body,
        ..PAGE
    };
    // Blocks of 128 in 4 parts, 10 lengths of which the first is 0.
    with(&[0x80, 0x01, 0x04, 10, 0]).check().unwrap();
    let many = with(&[0x80, 0x01, 0x04, 11, 0]);
    assert!(
        many.refused()
            .contains("lengths of texts: 11 is outside 0 to 10")
    );
    let most = [
        0x80, 0x01, 0x04, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0,
    ];
    let most = with(Box::leak(Box::new(most)));
    assert!(
        most.refused()
            .contains("lengths of texts: 9223372036854775807 is")
    );
    for cut in [&[0x80, 0x01, 0x04][..], &[0x80], &[], &[0xff; 20]] {
        let cut = Box::leak(cut.to_vec().into_boxed_slice());
        assert!(with(cut).refused().contains("cut short"));
    }
}
