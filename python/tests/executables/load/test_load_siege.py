"""The load engine beside siege, which MediaWiki is loaded with elsewhere: throughput and response time of
nginx."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.executables import backends, servers

pytestmark = pytest.mark.slow
CONNECTIONS = 16
SECONDS = 3
LOAD = ("--protocol", "http", "--warmup", "0s", "--connections", str(CONNECTIONS))
ROUNDS_MAX = 15


@pytest.fixture
def siege(tmp_path):
    """Run siege in a closed loop on an address; return requests per second, mean response in s, and
    failures."""
    home = tmp_path / "home"
    home.mkdir()
    settings = home / "siegerc"
    # It writes its settings and cookies into the home folder, and closes connections by default.
    settings.write_text("connection = keep-alive\nparser = false\ncache = false\nlogging = false\n")

    def run(url: str) -> tuple[float, float, int]:
        command = [servers.tool("siege"), "--rc", str(settings), "--benchmark", "--quiet", "--json-output"]
        command += ["--concurrent", str(CONNECTIONS), "--time", f"{SECONDS}S", url]
        for _ in range(ROUNDS_MAX):
            # At its end it waits for itself for ever now and then: such a round is made again.
            done = subprocess.run(
                ["timeout", "--kill-after", "1", str(SECONDS + 20), *command],
                env={**os.environ, "HOME": str(home)},
                capture_output=True,
                text=True,
                check=False,
            )
            found = re.search(r"\{.*\}", done.stdout, re.DOTALL)
            if done.returncode == 0 and found:
                said = json.loads(found[0])
                return said["transaction_rate"], said["response_time"], said["failed_transactions"]
        raise AssertionError(done)

    return run


def test_siege_finds_the_same_of_a_static_page(siege, tmp_path: Path) -> None:
    """By ``agree``, as with wrk. Siege rounds response times to 10 ms.

    By Little's law, the mean response time of a closed loop is its connections over its throughput: that is
    siege's, and the same of ours checks that the two figures of ours belong together.
    """
    with backends.nginx(tmp_path) as nginx:
        url = f"http://127.0.0.1:{nginx.server.port}/"

        def ours() -> tuple[float, float]:
            result = backends.load(nginx.server.port, *LOAD, "--duration", "1s")
            mean_ms = result["latency"]["response"]["mean_ns"] / 1e6
            little_ms = 1e3 * CONNECTIONS / result["throughput_per_s"]
            assert mean_ms == pytest.approx(little_ms, rel=0.25)
            return result["throughput_per_s"], mean_ms

        def theirs() -> tuple[float, float]:
            rate, response_s, failed = siege(url)
            assert failed == 0
            assert response_s == pytest.approx(CONNECTIONS / rate, rel=0.25, abs=0.01)
            return rate, 1e3 * CONNECTIONS / rate

        backends.agree(ours, theirs)


def test_siege_finds_the_same_of_a_page_that_takes_a_while(siege, tmp_path: Path) -> None:
    """nginx answers so many requests per second and lets the others wait: throughput and response time are
    known.

    The first answers come at once, and those that wait when siege ends count for it but not for us: both
    show in a throughput that is up to connections / seconds higher. Rounds are repeated where the machine
    stalled.
    """
    bound_per_s = CONNECTIONS / SECONDS
    with backends.nginx(tmp_path) as nginx:
        port = nginx.server.port
        for _ in range(ROUNDS_MAX):
            result = backends.load(port, *LOAD, "--path", "/paced", "--duration", f"{SECONDS}s")
            assert result["requests"]["errors"] == 0
            rate, response_s, failed = siege(f"http://127.0.0.1:{port}/paced")
            assert failed == 0
            mean_s = result["latency"]["response"]["mean_ns"] / 1e9
            known_s = CONNECTIONS / backends.PACED_PER_S
            is_alike = (
                abs(result["throughput_per_s"] - backends.PACED_PER_S) < bound_per_s
                and abs(rate - backends.PACED_PER_S) < bound_per_s
                and mean_s == pytest.approx(known_s, rel=0.1)
                # To 10 ms, and without what the round's beginning and end do.
                and response_s == pytest.approx(mean_s, abs=0.01 + 0.1 * known_s)
            )
            if is_alike:
                return
    raise AssertionError((result["throughput_per_s"], rate, mean_s, response_s))
