#!/usr/bin/env python3
"""Makes the image of the agent as an OCI archive, without a container engine.

    scripts/make_image.py VERSION EXECUTABLE OUT

In: a static steelyard-agent. Out: ``OUT/steelyard-agent-VERSION-ARCH.oci.tar``, which `podman load`,
`skopeo copy oci-archive:...` and containerd's `ctr images import` read. The image holds the agent, the
certificates that this machine trusts, and empty folders for the spool, configuration and temporary files; no
shell and no C library. The same inputs and SOURCE_DATE_EPOCH give the same bytes. `deploy/Containerfile` is
the recipe for container engines.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
FOLDERS = {
    "etc": 0o755,
    "etc/ssl": 0o755,
    "etc/ssl/certs": 0o755,
    "etc/steelyard": 0o755,
    "tmp": 0o1777,
    "usr": 0o755,
    "usr/bin": 0o755,
    "var": 0o755,
    "var/lib": 0o755,
    "var/lib/steelyard-agent": 0o700,
}
NAME = "steelyard/agent"


def layer(executable: Path, certificates: Path, moment: int) -> bytes:
    """Return the image's only layer as a tar file."""
    files = {
        "etc/ssl/certs/ca-certificates.crt": (certificates.read_bytes(), 0o644),
        "usr/bin/steelyard-agent": (executable.read_bytes(), 0o755),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, mode in FOLDERS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode, moment
            archive.addfile(entry)
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, moment
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def configuration(version: str, architecture: str, plain_layer: bytes, moment: int) -> dict[str, Any]:
    """Return the image's configuration (OCI image specification 1.1)."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    return {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["steelyard-agent"],
            "Cmd": ["run", "--config", "/etc/steelyard/agent.toml"],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "steelyard-agent",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.source": "https://github.com/steelyard-project/steelyard",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain_layer).hexdigest()}"]},
        "history": [{"created": created, "created_by": "scripts/make_image.py"}],
    }


def write(version: str, executable: Path, out: Path, certificates: Path, moment: int) -> Path:
    """Write the archive and return its path."""
    architecture = ARCHITECTURES[platform.machine()]
    blobs: dict[str, bytes] = {}

    def add(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    plain = layer(executable, certificates, moment)
    config = json.dumps(configuration(version, architecture, plain, moment)).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(config, "application/vnd.oci.image.config.v1+json"),
        "layers": [add(gzip.compress(plain, 9, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")],
    }
    entry = add(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    entry["platform"] = {"architecture": architecture, "os": "linux"}
    # Engines read the whole name from the first annotation, the tag from the second.
    entry["annotations"] = {
        "io.containerd.image.name": f"{NAME}:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps(index).encode(),
        **dict(sorted(blobs.items())),
    }
    path = out / f"steelyard-agent-{version}-{platform.machine()}.oci.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), moment, 0o644
            archive.addfile(member, io.BytesIO(content))
    return path


def main() -> int:
    """Write the image; return the exit code."""
    parser = argparse.ArgumentParser(description="Make the image of the agent as an OCI archive.")
    parser.add_argument("version")
    parser.add_argument("executable", type=Path, help="a static steelyard-agent")
    parser.add_argument("out", type=Path, help="folder of the archive")
    parser.add_argument("--certificates", type=Path, default=CERTIFICATES, help="authorities to trust")
    chosen = parser.parse_args()
    for path in (chosen.executable, chosen.certificates):
        if not path.is_file():
            print(f"make_image: {path} is not here", file=sys.stderr)
            return 3
    moment = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    print(write(chosen.version, chosen.executable, chosen.out, chosen.certificates, moment), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
