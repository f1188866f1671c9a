//! The interval log: the histograms of every interval in a file, in HdrHistogram's own format (V2, deflated).

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::interval_log::{
    IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};
use hdrhistogram::serialization::{V2DeflateSerializeError, V2DeflateSerializer};
use steelyard_record::Clock;

use crate::LoadError;
use crate::control::Interval;

use super::file_error;

/// Writes to the log's file.
pub type HlogWriter<'a> = IntervalLogWriter<'a, 'a, BufWriter<File>, V2DeflateSerializer>;

/// Creates the log's file.
pub fn create_hlog(path: &Path) -> Result<BufWriter<File>, LoadError> {
    let file = File::create(path).map_err(|source| file_error(path, source))?;
    Ok(BufWriter::new(file))
}

/// Ends the log: what its buffer holds is written, and has reached the disk. A buffer that is dropped would hide the
/// error of a full disk.
pub fn end_hlog(file: &mut BufWriter<File>, path: &Path) -> Result<(), LoadError> {
    file.flush()
        .and_then(|()| match file.get_ref().sync_all() {
            // Pipes and devices have nothing to bring to a disk.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidInput | ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            synced => synced,
        })
        .map_err(|source| file_error(path, source))
}

/// Writes what an interval log opens with.
pub fn begin_hlog<'a>(
    file: &'a mut BufWriter<File>,
    serializer: &'a mut V2DeflateSerializer,
    path: &Path,
    clock: Clock,
) -> Result<HlogWriter<'a>, LoadError> {
    let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(clock.realtime_ns);
    IntervalLogWriterBuilder::new()
        .add_comment("[Latencies in ns; tags: response, service, lag, queued]")
        .with_start_time(start)
        .with_max_value_divisor(1e6)
        .begin_log_with(file, serializer)
        .map_err(|source| file_error(path, source))
}

/// Writes the histograms of one interval, and calls `between` after each.
pub fn write_interval(
    hlog: &mut HlogWriter<'_>,
    interval: &Interval,
    clock: Clock,
    between: &mut dyn FnMut(),
) -> std::io::Result<()> {
    let start = Duration::from_nanos(interval.begin_ns.saturating_sub(clock.monotonic_ns));
    let length = Duration::from_nanos(interval.end_ns - interval.begin_ns);
    let latencies = &interval.latencies;
    for (tag, histogram) in [
        ("response", &latencies.response),
        ("service", &latencies.service),
        ("lag", &latencies.lag),
        ("queued", &latencies.queued),
    ] {
        hlog.write_histogram(histogram, start, length, Tag::new(tag))
            .map_err(io_error)?;
        between();
    }
    Ok(())
}

/// What the system said, where it was the system.
fn io_error(error: IntervalLogWriterError<V2DeflateSerializeError>) -> std::io::Error {
    match error {
        IntervalLogWriterError::IoError(source)
        | IntervalLogWriterError::SerializeError(V2DeflateSerializeError::IoError(source)) => {
            source
        }
        error => std::io::Error::other(format!("{error:?}")),
    }
}
