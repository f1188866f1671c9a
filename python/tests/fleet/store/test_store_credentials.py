"""Credentials of instances and pods: a bucket is asked with what the metadata server of a machine gives.

Everything is on loopback: the metadata server, the server of the pod's credentials, and the bucket.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

KEYS = {"instance": "AKIAINSTANCE00000000", "pod": "AKIAPOD0000000000000", "file": "AKIAFILE000000000000"}
TOKEN = "token-of-the-pod"


class _Server(ThreadingHTTPServer):
    """A metadata server and a bucket in one: notes who signed what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.signers: list[str] = []
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    server: _Server

    def do_PUT(self) -> None:
        self._send(b"metadata-token" if self.path.endswith("/api/token") else b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        signed = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
        if signed:
            self.server.signers.append(signed[1])
            self.send_error(404)
        elif self.path.rstrip("/").endswith("/meta-data/iam/security-credentials"):
            self._send(b"the-role")
        elif self.path.endswith("/security-credentials/the-role"):
            self._send(_credentials(KEYS["instance"]))
        elif self.path == "/pod" and self.headers.get("Authorization") == TOKEN:
            self._send(_credentials(KEYS["pod"]))
        elif self.path.endswith("/placement/availability-zone"):
            self._send(b"us-east-1a")
        else:
            self.send_error(404)

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _credentials(key: str) -> bytes:
    later = (datetime.now(UTC) + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-01-01T00:00:00Z"}
    found |= {"AccessKeyId": key, "SecretAccessKey": "secret", "Token": "session", "Expiration": later}
    return json.dumps(found).encode()


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as one:
        thread = threading.Thread(target=one.serve_forever, daemon=True)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def check(server: _Server, tmp_path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Look for a store in a bucket, in a process whose only credentials are those of ``environment``."""
    base = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "AWS_ENDPOINT_URL": server.address}
    # Whatever is not given here must be asked of loopback, never of a cloud.
    base |= {"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.address, "AWS_REGION": "us-east-1"}
    script = "import sys; from steelyard.cli.main import invoke; sys.exit(invoke(sys.argv[1:]))"
    words = ["fleet", "check", "--store", "s3://fleet/store"]
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        env=base | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_an_instance_signs_with_the_keys_of_its_role(server, tmp_path) -> None:
    done = check(server, tmp_path)
    assert done.returncode == 3, done.stderr
    assert "not a store" in done.stderr
    assert set(server.signers) == {KEYS["instance"]}
    assert any("security-credentials/the-role" in path for path in server.asked)


def test_a_pod_signs_with_the_keys_that_its_agent_gives(server, tmp_path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    done = check(
        server,
        tmp_path,
        AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{server.address}/pod",
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(token),
        AWS_CONTAINER_AUTHORIZATION_TOKEN=TOKEN,
    )
    assert done.returncode == 3, done.stderr
    assert set(server.signers) == {KEYS["pod"]}


def test_keys_of_a_file_come_before_those_of_the_instance(server, tmp_path) -> None:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        f"[default]\naws_access_key_id = {KEYS['file']}\naws_secret_access_key = secret\n"
    )
    done = check(server, tmp_path)
    assert done.returncode == 3, done.stderr
    assert set(server.signers) == {KEYS["file"]}
