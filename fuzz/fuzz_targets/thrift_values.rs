//! Messages of the compact protocol as anybody may write them: read, skipped or refused, never a panic, and no more
//! memory than the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_thrift::{
    ApplicationException, Fields, FrameBuffer, Message, MessageKind, Reader, ThriftError, Type,
    read_frame,
};

fn read(frame: &[u8]) -> Result<(), ThriftError> {
    let mut reader = Reader::new(frame);
    let message = Message::read(&mut reader)?;
    if message.kind == MessageKind::Exception {
        ApplicationException::read(&mut reader)?;
        return Ok(());
    }
    let mut fields = Fields::default();
    while let Some(field) = fields.next(&mut reader)? {
        match field.kind {
            Type::List => {
                let (kind, count) = reader.list()?;
                assert!(count <= frame.len());
                for _ in 0..count {
                    reader.skip(kind)?;
                }
            }
            kind => reader.skip(kind)?,
        }
    }
    Ok(())
}

fuzz_target!(|input: &[u8]| {
    let _ = read(input);
    let _ = Reader::new(input).skip(Type::Struct);
    let mut frames = FrameBuffer::new(1 << 16);
    for piece in input.chunks(7) {
        let taken: Result<(), ThriftError> = frames.take(piece, |frame| {
            let _ = read(frame);
            Ok(())
        });
        if taken.is_err() {
            break;
        }
    }
    let (mut source, mut frame) = (input, Vec::new());
    while let Ok(true) = read_frame(&mut source, &mut frame, 1 << 16) {}
});
