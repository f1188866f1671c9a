"""Lets DuckDB read a bucket through Arrow's S3 client.

DuckDB's own client is an extension that it downloads when it is first used, which a closed network does not
allow; Arrow's is part of a package that is here anyway.
"""

from typing import Any

from fsspec.implementations.arrow import ArrowFSWrapper

PROTOCOL = "steelyard"
"""What stands before a bucket's paths: ``s3`` would make DuckDB look for its extension."""


class _Bridge(ArrowFSWrapper):  # type: ignore[misc]
    protocol = PROTOCOL

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return path.removeprefix(f"{PROTOCOL}://") if isinstance(path, str) else path

    def glob(self, path: str, maxdepth: int | None = None, **options: Any) -> list[str]:
        # Paths come from a listing: a look at each, or a listing of its folder, would be a request more.
        return [_literal(path)]


def _literal(pattern: str) -> str:
    """Return the only path that ``pattern`` matches.

    >>> _literal("steelyard://bucket/a[[]1]/b[*]")
    'steelyard://bucket/a[1]/b*'
    """
    for letter in "[*?":
        pattern = pattern.replace(f"[{letter}]", letter)
    return pattern


def bridge(filesystem: Any) -> Any:
    """Return ``filesystem``, one of Arrow's, as fsspec knows file systems."""
    return _Bridge(filesystem, skip_instance_cache=True)
