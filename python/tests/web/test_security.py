"""Whom the server answers, what a browser may do with the answer, and what hostile clients cost."""

import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.report.runs import write_run
from tests.web.serving import Served, open_files, served


def test_a_page_has_no_inline_script_and_says_so(server: Served) -> None:
    for path in ("/runs", "/runs/tao-1/report.html", "/runs/tao-1/machine.html", "/trends", "/decide"):
        answer = server.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self';" in policy
        assert "default-src 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers
        text = answer.data.decode()
        for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", text, re.S):
            assert "src=" in attributes or "application/json" in attributes, path
            assert not ("src=" in attributes and body), path
        assert not re.search(r"<[^>]+\son[a-z]+=", text), path


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../../etc/report.html",
        "/runs/..%2f..%2fetc/report.html",
        "/runs/%2e%2e/%2e%2e/etc/report.html",
        "/runs//etc/report.html",
        "/runs/.hidden/report.html",
        "/runs/tao-1%00/report.html",
        "/runs/absent/report.html",
        "/api/v1/runs/../../etc",
        "/api/v1/runs/..%2f..%2fetc",
        "/runs/absent/live.json",
        "/runs/absent/machine.html",
        "/compare?run=../../etc&run=tao-1",
        "/nothing",
    ],
)
def test_no_path_leads_out(server: Served, records: Path, path: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        # Clients tidy paths up; this one does not.
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert answer.split()[1] in ("404", "307"), answer[:300]
    assert str(records) not in answer
    assert "root:" not in answer


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write_run(root / "a")
    write_run(tmp_path / "secret")
    (root / "linked").symlink_to(tmp_path / "secret")
    (root / "a" / "profile.folded").symlink_to("/etc/passwd")
    with served(root) as server:
        assert server.get("/runs/linked/report.html").status == 404
        answer = server.get("/runs/a/report.html")
        assert answer.status == 422
        assert "leads out" in answer.data.decode()
        assert server.get("/api/v1/runs/a").status == 422
        assert str(tmp_path) not in answer.data.decode()


def test_only_a_known_host_is_answered(server: Served) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", ""):
        assert server.get("/runs", headers={"Host": host}).status in (400, 421)
    for host in ("localhost", f"127.0.0.1:{server.port}", "[::1]", "LOCALHOST"):
        assert server.get("/runs", headers={"Host": host}).status == 200


def test_only_reading_is_done(server: Served) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert server.get("/runs", method=method).status == 405
    assert server.get("/runs", method="HEAD").status == 200
    assert server.get("/runs", method="POST").status == 405
    big = {"Content-Length": str(100 << 20)}
    assert server.get("/runs", headers=big, method="POST").status == 413
    assert server.get("/runs?search=" + "x" * 10_000).status == 414


def test_another_sites_page_cancels_nothing(server: Served) -> None:
    for headers in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
    ):
        assert server.get("/jobs/x/cancel", method="POST", headers=headers).status == 403
    own = {"Origin": server.address, "Sec-Fetch-Site": "same-origin"}
    assert server.get("/jobs/x/cancel", method="POST", headers=own).status == 404


def test_beyond_loopback_the_token_is_asked_for(records: Path, tmp_path: Path) -> None:
    with served(records, "--host", "0.0.0.0") as server:
        assert len(server.token) > 40
        assert server.get("/runs").status == 401
        assert server.get("/api/v1/runs", headers={"Authorization": "Bearer wrong"}).status == 401
        bearer = {"Authorization": f"Bearer {server.token}"}
        assert server.get("/api/v1/runs", headers=bearer).status == 200
        answer = server.get(f"/runs?token={server.token}&search=tao")
        assert answer.status == 303
        assert answer.headers["Location"] == "/runs?search=tao"
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert server.get("/runs", headers={"Cookie": cookie.partition(";")[0]}).status == 200
        elsewhere = server.get(f"//evil.example/?token={server.token}")
        assert not elsewhere.headers.get("Location", "").startswith("//")
    file = tmp_path / "token"
    file.write_text("short\n")
    refused = subprocess.run(
        ["steelyard", "serve", str(records), "--token-file", str(file)], capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert "at least 16 letters" in refused.stderr
    file.write_text("0123456789abcdef0123\n")
    with served(records, "--token-file", str(file)) as server:
        assert server.token == "0123456789abcdef0123"
        assert server.get("/runs").status == 401


def test_two_hundred_clients_and_a_slow_one_are_served(server: Served) -> None:
    pid = server.process.pid
    before = open_files(pid)
    slow = []
    for _ in range(100):
        connection = socket.create_connection(("127.0.0.1", server.port))
        # It asks for much and reads nothing; and one never ends its request.
        connection.sendall(b"GET /static/plotly-cartesian.min.js HTTP/1.1\r\nHost: localhost\r\n")
        connection.sendall(b"\r\n" if len(slow) % 2 else b"X: y\r\n")
        slow.append(connection)
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(server.get("/runs").status)

    threads = [threading.Thread(target=ask) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 100
    for connection in slow:
        connection.close()
    resident = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])  # type: ignore[index]
    assert resident < 700_000, f"{resident} kB"
    deadline = time.monotonic() + 60
    while open_files(pid) > before + 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert open_files(pid) <= before + 5


def test_a_body_of_100_mb_is_not_read(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {100 << 20}\r\n\r\n"
        connection.sendall(head.encode())
        sent = 0
        try:
            while sent < 100 << 20:
                sent += connection.send(b"x" * 65536)
        except OSError:
            pass
        else:
            raise AssertionError("all of it was read")
    assert server.get("/runs").status == 200
