"""The folder or bucket that a store is in, behind one small interface.

In: a URL, which is a path or ``s3://bucket/prefix`` (endpoint and credentials as AWS's tools read them from
the environment; ``AWS_ENDPOINT_URL`` names another server). Out: `Place`: list, read, write, remove.

Invariants: a file appears under its name only when it is complete; removing what is gone is no error. Every
error of the world is reported as EnvironmentLacksError with the path.

Not here: what the files hold.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard._base.files import check_size

_PERMISSION = "check who may read and write there"


@dataclass(frozen=True)
class Entry:
    """A file: its path relative to the place, its size, and when it was written (Unix time)."""

    path: str
    size_bytes: int
    written_unix_s: float | None


class Place:
    """A folder on this machine or in an S3-compatible store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_local = "://" not in url
        if self.is_local:
            self.root = str(Path(url).expanduser().absolute())
            self.filesystem: Any = pafs.LocalFileSystem()
        elif url.startswith("s3://") and url.removeprefix("s3://").strip("/"):
            self.root = url.removeprefix("s3://").strip("/")
            self.filesystem = _s3()
        else:
            raise UsageError(f"{url}: no store can be there", hint="name a folder, or s3://bucket/prefix")

    def full(self, path: str) -> str:
        """Return the path that the file system knows ``path`` by."""
        return f"{self.root}/{path}" if path else self.root

    def entries(self, folder: str = "", closed: list[tuple[str, str]] | None = None) -> list[Entry]:
        """Return every file below ``folder``, in order of name; none where there is no such folder.

        Names that begin with ``.`` or ``_`` are of others, or not yet whole, and left out. Folders that may
        not be read are put into ``closed`` with the reason; without it they are an error. So is put what
        is no regular file, whose opening may never end; without ``closed`` it is left out.
        """
        if self.is_local:
            return sorted(self._walk(folder, closed), key=lambda entry: entry.path)
        selector = pafs.FileSelector(self.full(folder), allow_not_found=True, recursive=True)
        with self._errors_with_path(folder):
            infos = self.filesystem.get_file_info(selector)
        entries = []
        for info in infos:
            path = info.path.removeprefix(self.root).lstrip("/")
            inner = path.removeprefix(folder).lstrip("/")
            if info.type == pafs.FileType.File and not any(p[:1] in "._" for p in inner.split("/")):
                written = info.mtime.timestamp() if info.mtime is not None else None
                entries.append(Entry(path, info.size or 0, written))
        return sorted(entries, key=lambda entry: entry.path)

    def _walk(self, folder: str, closed: list[tuple[str, str]] | None) -> Iterator[Entry]:
        try:
            with os.scandir(self.full(folder)) as items:
                inside = sorted((item for item in items if item.name[0] not in "._"), key=lambda i: i.name)
        except FileNotFoundError:
            return
        except OSError as error:
            if closed is None:
                raise EnvironmentLacksError(
                    f"{self.full(folder)}: {reason(error)}", hint=_PERMISSION
                ) from error
            closed.append((folder, reason(error)))
            return
        for item in inside:
            path = f"{folder}/{item.name}" if folder else item.name
            try:
                seen = item.stat()
            except FileNotFoundError:
                # What is gone since, an upload replaced or a compaction joined.
                continue
            except OSError as error:
                _put_aside(closed, path, reason(error))
                continue
            if stat.S_ISDIR(seen.st_mode):
                yield from self._walk(path, closed)
            elif stat.S_ISREG(seen.st_mode):
                yield Entry(path, seen.st_size, seen.st_mtime)
            else:
                _put_aside(closed, path, "not a regular file")

    def entry(self, path: str) -> Entry:
        """Return what is known of the file at ``path``."""
        with self._errors_with_path(path):
            info = self.filesystem.get_file_info(self.full(path))
        return Entry(path, info.size or 0, info.mtime.timestamp() if info.mtime is not None else None)

    def exists(self, path: str) -> bool:
        """Return whether there is a file at ``path``."""
        with self._errors_with_path(path):
            return bool(self.filesystem.get_file_info(self.full(path)).type == pafs.FileType.File)

    def open(self, path: str) -> Any:
        """Open ``path`` for random reads. Raises OSError: one file's trouble is its own."""
        return self.filesystem.open_input_file(self.full(path))

    def read(self, path: str) -> bytes:
        """Return the content of ``path``. Raises RecordError where no record is as large."""
        with self._errors_with_path(path), self.open(path) as file:
            check_size(self.full(path), file.size())
            content: bytes = file.read()
            return content

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        """Put ``content`` at ``path``, whole or not at all, in place of what was there."""
        with self._errors_with_path(path):
            if self.is_local:
                _write_local(Path(self.full(path)), content)
                return
            with self.filesystem.open_output_stream(self.full(path)) as stream:
                stream.write(content)

    @contextlib.contextmanager
    def claimed(self, name: str) -> Iterator[None]:
        """Keep others who claim ``name`` away; it is free again when this process ends, however it does.

        Raises UsageError where another process has it. Buckets know no such claims.
        """
        if not self.is_local:
            yield
            return
        path = Path(self.full(name))
        with self._errors_with_path(name):
            file = path.open("wb")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Who had it removes the file at its end: a lock of that file keeps nobody away.
                if path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                    raise BlockingIOError
            except (BlockingIOError, FileNotFoundError) as error:
                raise UsageError(
                    f"{self.url}: another command is writing there",
                    hint="wait, or name another folder",
                ) from error
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    def remove(self, path: str) -> None:
        """Remove ``path``; nothing where it is gone already."""
        with self._errors_with_path(path), contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.full(path))

    @contextlib.contextmanager
    def _errors_with_path(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            where = f"{self.url.rstrip('/')}/{path}" if path else self.url
            raise EnvironmentLacksError(f"{where}: {reason(error)}", hint=_PERMISSION) from error


def _put_aside(closed: list[tuple[str, str]] | None, path: str, why: str) -> None:
    if closed is not None:
        closed.append((path, why))


def reason(error: BaseException) -> str:
    """Return what went wrong in one line without the path, which is reported beside it."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return " ".join(str(error).split(". Detail:")[0].split())


def _write_local(path: Path, content: bytes | pa.Buffer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A leading dot keeps a half-written file out of every listing; the process id keeps writers apart.
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _s3() -> Any:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    options: dict[str, Any] = {"connect_timeout": 5, "request_timeout": 60}
    if endpoint:
        scheme, _, host = endpoint.rstrip("/").rpartition("://")
        options |= {"endpoint_override": host, "scheme": scheme or "https"}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    # Without a region the client would ask the machine's cloud for one, for seconds where there is none.
    if region or endpoint:
        options["region"] = region or "us-east-1"
    return pafs.S3FileSystem(**options)
