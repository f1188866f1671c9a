"""Certificates for the length of a test, made by openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import servers


@dataclass(frozen=True)
class Files:
    """What a server and its clients need, in PEM."""

    authority: Path
    certificate: Path
    key: Path
    both: Path
    """Certificate and key in one file."""


def issue(folder: Path, name: str) -> Files:
    """Make an authority and a certificate for a host name."""
    files = Files(*(folder / f"{part}.pem" for part in ("authority", "certificate", "key", "both")))
    request, authority_key = folder / "request.pem", folder / "authority-key.pem"
    extension = folder / "extension"
    extension.write_text(f"subjectAltName=DNS:{name}\nbasicConstraints=CA:FALSE\n")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    signing = ["x509", "-req", "-in", request, "-CA", files.authority, "-CAkey", authority_key]
    signing += ["-CAcreateserial", "-out", files.certificate, "-extfile", extension]
    for command in (
        [
            "req",
            "-x509",
            *new_key,
            "-keyout",
            authority_key,
            "-out",
            files.authority,
            "-subj",
            "/CN=authority",
        ],
        ["req", *new_key, "-keyout", files.key, "-out", request, "-subj", f"/CN={name}"],
        signing,
    ):
        subprocess.run([servers.tool("openssl"), *map(str, command)], check=True, capture_output=True)
    files.both.write_text(files.certificate.read_text() + files.key.read_text())
    return files
