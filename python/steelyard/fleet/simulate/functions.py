"""The functions that a simulated job's CPU time goes to: its own, and the datacenter tax's.

In: the plan. Out: per job its stacks with their true shares; the symbols of binaries that were stripped.

Shares fall as a Zipf distribution falls over ranks, which is how flat real profiles are (GWP: the hottest
functions of a datacenter are a few per cent each). Between 18 and 82 % of cycles are tax, the range that
DCPerf's paper gives for Meta. Every second job's binary is stripped: its frames are offsets and a build id,
and the names are in ``symbols``, for two builds of it, so that the same function has two offsets.

Invariants: a job's shares sum to 1; a stack stands once in its job.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard.fleet.simulate.plan import Plan, stream
from steelyard.fleet.store.schema import TABLES

# Leaf functions of the tax with the module that they are in and the frame that calls them.
TAX = (
    ("__memmove_avx_unaligned_erms", "libc.so.6", "copy_response"),
    ("__memset_avx2_unaligned_erms", "libc.so.6", "prepare_buffer"),
    ("malloc", "libjemalloc.so.2", "allocate_request"),
    ("free", "libjemalloc.so.2", "release_request"),
    ("je_arena_cache_bin_fill_small", "libjemalloc.so.2", "allocate_request"),
    ("ZSTD_compressBlock_doubleFast", "libzstd.so.1", "compress_response"),
    ("ZSTD_decompressSequences_bmi2", "libzstd.so.1", "decompress_request"),
    ("LZ4_compress_fast_continue", "liblz4.so.1", "compress_response"),
    ("aesni_gcm_encrypt", "libcrypto.so.3", "write_record"),
    ("aesni_gcm_decrypt", "libcrypto.so.3", "read_record"),
    ("sha256_block_data_order_avx2", "libcrypto.so.3", "checksum_block"),
    ("XXH64", "libxxhash.so.0", "checksum_block"),
    ("apache::thrift::protocol::TCompactProtocolWriter::writeVarint32", "libthrift.so", "serialize_response"),
    ("apache::thrift::protocol::TCompactProtocolReader::readVarint64", "libthrift.so", "parse_request"),
    ("google::protobuf::internal::TcParser::ParseLoop", "libprotobuf.so.32", "parse_request"),
    ("tcp_sendmsg_locked", "kernel", "write_record"),
    ("tcp_recvmsg_locked", "kernel", "read_record"),
    ("__napi_poll", "kernel", "read_record"),
    ("futex_wake", "kernel", "finish_request"),
    ("__schedule", "kernel", "wait_for_work"),
    ("pthread_mutex_lock", "libc.so.6", "finish_request"),
    ("clear_page_erms", "kernel", "allocate_request"),
)
_OWN_WORDS = (
    (
        "score",
        "rank",
        "match",
        "parse",
        "merge",
        "scan",
        "encode",
        "index",
        "lookup",
        "insert",
        "filter",
        "sort",
    ),
    (
        "documents",
        "candidates",
        "features",
        "blocks",
        "postings",
        "columns",
        "rows",
        "frames",
        "tokens",
        "keys",
    ),
)
_OWN = 36
_ZIPF_EXPONENT = 0.9
_TAX_RATIO = (0.18, 0.82)
_FUNCTION_BYTES = 0x240
_TEXT_START = 0x1000


@dataclass(frozen=True)
class JobFunctions:
    """A job's leaf functions: their true shares of its CPU time, and their stacks in each of two builds."""

    names: list[str]
    modules: list[str]
    tax: list[bool]
    share: NDArray[np.float64]
    stacks: tuple[list[str], list[str]]
    stripped: bool
    build_ids: tuple[str, str]
    own: list[str]
    """The names of its own functions in the order in which the first build has them."""


def _zipf(count: int, random: np.random.Generator) -> NDArray[np.float64]:
    weight = 1.0 / (1.0 + random.permutation(count)) ** _ZIPF_EXPONENT
    return np.asarray(weight / weight.sum())


def _build_id(job: str, build: int) -> str:
    return hashlib.sha1(f"{job} build {build}".encode(), usedforsecurity=False).hexdigest()


def _offset(position: int, build: int) -> int:
    """Return where a function begins: the second build has another order of size and place."""
    return _TEXT_START + (position + build * 7) * (_FUNCTION_BYTES + 0x40 * build)


def make_functions(plan: Plan) -> list[JobFunctions]:
    """Return every job's functions."""
    made = []
    for number, job in enumerate(plan.jobs):
        random = stream(plan.settings, "plan", 1 + number)
        verbs, things = _OWN_WORDS
        pairs = [f"{verb}_{thing}" for verb in verbs for thing in things]
        own = [pairs[i] for i in random.choice(len(pairs), _OWN, replace=False).tolist()]
        callers = sorted({caller for *_, caller in TAX})
        named = {name: place for place, name in enumerate(["main", "serve", *callers, *own])}
        tax_ratio = float(random.uniform(*_TAX_RATIO))
        share = np.concatenate([(1 - tax_ratio) * _zipf(_OWN, random), tax_ratio * _zipf(len(TAX), random)])
        stripped = number % 2 == 1
        builds = (_build_id(job.name, 0), _build_id(job.name, 1))
        stacks = tuple(
            _stacks(job.name, own, named, builds[build] if stripped else None, build) for build in (0, 1)
        )
        made.append(
            JobFunctions(
                names=[*own, *(name for name, *_ in TAX)],
                modules=[*([job.name] * _OWN), *(module for _, module, _ in TAX)],
                tax=[False] * _OWN + [True] * len(TAX),
                share=share,
                stacks=(stacks[0], stacks[1]),
                stripped=stripped,
                build_ids=builds,
                own=list(named),
            )
        )
    return made


def _stacks(job: str, own: list[str], named: dict[str, int], build_id: str | None, build: int) -> list[str]:
    """Return the folded stack of each leaf, own functions first."""

    def frame(name: str) -> str:
        if build_id is None:
            return f"{name} [{job}]"
        # A sample falls somewhere into the function, not on its first byte.
        return f"0x{_offset(named[name], build) + 0x1C:x} [{job}@{build_id}]"

    root = f"{job};{frame('main')};{frame('serve')}"
    stacks = [f"{root};{frame(name)}" for name in own]
    for name, module, caller in TAX:
        stacks.append(f"{root};{frame(caller)};{name} [{module}]")
    return stacks


def symbol_table(functions: list[JobFunctions], jobs: list[str]) -> pa.Table:
    """Return the rows of ``symbols``: both builds of every stripped binary."""
    rows: list[dict[str, Any]] = []
    for job, item in zip(jobs, functions, strict=True):
        if not item.stripped:
            continue
        for build, build_id in enumerate(item.build_ids):
            rows += [
                {
                    "build_id": build_id,
                    "module": job,
                    "start": _offset(place, build),
                    "size": _FUNCTION_BYTES,
                    "name": name,
                }
                for place, name in enumerate(item.own)
            ]
    rows.sort(key=lambda row: (row["build_id"], row["start"]))
    return pa.Table.from_pylist(rows, schema=TABLES["symbols"].arrow)
