"""The load of the wiki: its mix as `steelyard-load` reads and sends it, and a look at a page of each kind."""

import http.server
import re
import subprocess
import threading
from urllib.parse import unquote

import pytest

from steelyard._base import WorkloadFailedError
from steelyard.bench.ports import free_port
from steelyard.benchmarks.mediawiki import load
from steelyard.benchmarks.mediawiki.content import Wiki

ARTICLES = 40


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.paths.append(self.path)
        body = self.server.body
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    """A web server that answers everything alike and keeps the paths."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as made:
        made.paths, made.status, made.body = [], 200, b"page"
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


def settings(**changed):
    chosen = {"rate": 0.0, "load_threads": 1, "connections": 2, "measure": 1.0, "warmup_min": 0.0, "seed": 5}
    return {**chosen, **changed}


def test_weights_are_those_of_dcperfs_list():
    weights = {kind.name: kind.weight for kind in load.page_kinds(ARTICLES)}
    assert weights["main-page"] == 6
    assert all(2 <= weight <= 4 for name, weight in weights.items() if name != "main-page")
    assert len(weights) == 10


def test_the_load_accepts_the_mix_and_refuses_a_wrong_popularity(tmp_path):
    mix = tmp_path / "mix.toml"
    for popularity, code in (("zipf:0.9", 0), ("uniform", 0), ("often", 2)):
        load.write_mix(mix, articles=ARTICLES, popularity=popularity)
        command = load.load_command(settings(), target="127.0.0.1:1", mix=["--mix", str(mix)])
        done = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == code, done.stderr


def test_a_rate_makes_an_open_loop():
    assert "--rate" not in load.load_command(settings(), target="127.0.0.1:1", mix=[])
    command = load.load_command(settings(rate=12.5), target="127.0.0.1:1", mix=[])
    assert command[command.index("--rate") + 1] == "12.5"


def test_every_page_that_the_load_asks_for_is_in_the_wiki(server, tmp_path):
    mix = tmp_path / "mix.toml"
    load.write_mix(mix, articles=ARTICLES, popularity="uniform")
    command = load.load_command(
        settings(), target=f"127.0.0.1:{server.server_address[1]}", mix=["--mix", str(mix)]
    )
    command.remove("--hold")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    titles = {page.title for page in Wiki(1, ARTICLES).pages()}
    asked = set()
    for path in server.paths:
        title = unquote(re.search(r"[?&]title=([^&]*)", path)[1]).replace("_", " ")
        assert title in titles or title.startswith("Special:"), path
        asked.add(title)
    # All of them in so many requests, unless the load cannot send 200.
    assert len(server.paths) < 1000 or len(asked) > 2 * ARTICLES
    assert {"Special:UserLogin", "Special:Search", "Special:RecentChanges", "Front page"} <= asked


def test_an_example_of_each_kind_has_no_placeholder():
    for kind in load.page_kinds(ARTICLES):
        path = load.example(kind, ARTICLES)
        assert "{" not in path
        assert path.startswith("/index.php?title=")
    long = next(kind for kind in load.page_kinds(250) if kind.name == "long-article")
    assert load.example(long, 250) == "/index.php?title=Long_article_1"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"page", None),
        (200, b"other", "answered with status 200 without 'page'"),
        (500, b"page", "answered with status 500"),
        (302, b"page", "answered with status 302"),
    ],
)
def test_a_page_needs_status_200_and_the_expected_text(server, status, body, message):
    server.status, server.body = status, body
    kind = load.PageKind("any", 1, "title=Article_{key}", "page")
    port = server.server_address[1]
    if message is None:
        load.check_page(port, kind, ARTICLES)
        assert server.paths == ["/index.php?title=Article_00"]
        return
    with pytest.raises(WorkloadFailedError, match=re.escape(message)):
        load.check_page(port, kind, ARTICLES)


def test_no_answer_is_an_error_that_names_the_page():
    kind = load.PageKind("any", 1, "title=Article_{key}", "page")
    with pytest.raises(WorkloadFailedError, match=r"title=Article_00: no answer"):
        load.check_page(free_port(), kind, ARTICLES)
