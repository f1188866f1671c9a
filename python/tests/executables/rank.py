"""Runs steelyard-rank, a root and its leaf, and calls them with thriftpy2, a Thrift client not of ours."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import thriftpy2
from thriftpy2.protocol import TCompactProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TFramedTransportFactory, TMemoryBuffer

from .servers import ROOT, executable

# Work so small that a development build does it in a moment.
SMALL = (
    "--feature-functions=256",
    "--feature-calls=2000",
    "--leaf-candidates=200",
    "--leaf-results=20",
    "--embedding-bytes=1MiB",
    "--graph-bytes=1MiB",
    "--chase-steps=500",
    "--stories=30",
)
SMALL_LEAF = ("--item-bytes=1MiB",)
CODECS = {0: None, 1: "snappy", 2: "zstd"}


@cache
def idl() -> Any:
    """Return the service's types, from the IDL file as it is shipped."""
    return thriftpy2.load(str(ROOT / "idl" / "rank.thrift"), module_name="rank_thrift")


@dataclass
class Process:
    """A root or a leaf."""

    process: "subprocess.Popen[bytes]"
    ready: dict[str, Any]

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.ready["listen"].rsplit(":", 1)[1])

    def stop(self) -> int:
        """Ask it to end and return its exit code."""
        self.process.terminate()
        return self.process.wait(20)

    @contextmanager
    def client(self, service: str = "Ranker", timeout_s: float = 20) -> Iterator[Any]:
        """Open a connection of an ordinary Thrift client."""
        context = None
        if self.ready["tls_ca"]:
            context = ssl.create_default_context(cafile=self.ready["tls_ca"])
        client = make_client(
            getattr(idl(), service),
            "127.0.0.1",
            self.port,
            proto_factory=TCompactProtocolFactory(),
            trans_factory=TFramedTransportFactory(),
            ssl_context=context,
            timeout=timeout_s * 1000,
        )
        try:
            yield client
        finally:
            client.close()


@contextmanager
def _running(*arguments: str) -> Iterator[Process]:
    command = [str(executable("steelyard-rank")), *arguments, "--die-with-parent"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, error = process.communicate()
        raise AssertionError(f"steelyard-rank did not start: {error.decode()}")
    try:
        yield Process(process, json.loads(line))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def _tls(folder: Path | None) -> tuple[str, ...]:
    return ("--no-tls",) if folder is None else ("--tls-dir", str(folder))


@contextmanager
def leaf(folder: Path | None, *arguments: str) -> Iterator[Process]:
    """Run a leaf with little to do; certificates are in ``folder``, None: no TLS."""
    with _running("leaf", *_tls(folder), *SMALL_LEAF, *arguments) as process:
        yield process


@contextmanager
def root(folder: Path | None, leaves: list[Process], *arguments: str) -> Iterator[Process]:
    """Run a root with little to do."""
    addresses = [word for leaf in leaves for word in ("--leaf", leaf.ready["listen"])]
    with _running("root", *_tls(folder), *addresses, *SMALL, *arguments) as process:
        yield process


def unpack(blob: bytes, compression: int, uncompressed_bytes: int) -> bytes:
    """Undo the compression of a blob with a library of no kin to ours."""
    codec = CODECS[compression]
    return blob if codec is None else pa.decompress(blob, uncompressed_bytes, codec=codec, asbytes=True)


def parse(kind: Any, blob: bytes) -> Any:
    """Read a structure in the compact protocol."""
    value = kind()
    value.read(TCompactProtocolFactory().get_protocol(TMemoryBuffer(blob)))
    return value
