"""A social network's pages: the mix, and a run whose pages show what visitors wrote."""

import http.client
import tomllib
import urllib.parse

import pytest

from steelyard._base import workloads_dir
from steelyard.bench import declaration, tiers
from steelyard.bench.ports import free_port
from steelyard.bench.stack.recipe import payload_dir
from steelyard.benchmarks.django.stack.load import mix_text
from steelyard.benchmarks.social.declaration import DECLARATION, PAGES

PAYLOAD = workloads_dir() / "django"


def test_every_page_of_the_mix_has_an_address():
    mix = tomllib.loads(mix_text(PAGES, 500, "zipf:0.8"))
    weights = {operation["name"]: operation["weight"] for operation in mix["operation"]}
    assert sum(weights.values()) == 100
    urls = (PAYLOAD / "social" / "urls.py").read_text()
    for name in weights:
        assert f'path("{name}/<str:account>", pages.{name})' in urls
    forms = {operation["name"] for operation in mix["operation"] if operation["http"]["method"] == "POST"}
    assert forms == {"login", "post", "comment", "like", "send", "befriend"}
    code = (PAYLOAD / "social" / "pages.py").read_text()
    for name in forms:
        assert f'@require_http_methods(["POST"])\ndef {name}(' in code


def test_it_has_djangos_stack_and_its_own_pages():
    assert declaration.find("social") is DECLARATION
    assert DECLARATION.recipe == declaration.find("django").recipe
    assert "befriend_p95_ns" in DECLARATION.headline
    assert "seen_p95_ns" not in DECLARATION.headline
    assert "social" in tiers.suites()["cloudsuite"].benchmarks


@pytest.fixture
def installed():
    if not (payload_dir(DECLARATION.recipe.payload) / ".installed").is_file():
        pytest.fail("Django is not installed: scripts/install-test-packages --slow")


def fetch(port, method, path, **form):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
    connection.request(method, path, urllib.parse.urlencode(form) or None, headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response, body


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pages_show_what_visitors_wrote(runner, installed):
    port = free_port()
    live = runner.start(
        benchmark="social",
        settings=("users=100", "warmup_min=1", "warmup_max=3", "measure=12", f"port={port}"),
    )
    live.until(lambda: live.in_phase("measure"), 300)
    text = "a <b>word</b> & another"
    response, body = fetch(port, "POST", "/post/visitor", text=text)
    assert response.status == 200
    # The text of a visitor is text: nothing of it becomes markup.
    assert "A &lt;b&gt;word&lt;/b&gt; &amp; another" in body
    assert "word&lt;/b&gt;" in fetch(port, "GET", "/wall/visitor")[1]
    response, body = fetch(port, "POST", "/login/visitor", text="x")
    assert "session=" in response.headers["Set-Cookie"]
    response, body = fetch(port, "POST", "/comment/visitor", text="well said")
    assert "well said" in body
    assert fetch(port, "GET", "/like/visitor")[0].status == 405
    before = fetch(port, "GET", "/members/visitor")[1].count("Unfollow")
    assert all(fetch(port, "POST", "/befriend/visitor")[0].status == 200 for _ in range(3))
    assert fetch(port, "GET", "/members/visitor")[1].count("Unfollow") >= before - 3
    code, _, stderr = live.finish(400)
    assert code in (0, 1), stderr
    metrics = live.run().metrics
    assert metrics["errors"].value == 0
    assert sum(metrics[f"{page.name}_per_s"].value for page in PAGES) == pytest.approx(
        metrics["requests_per_s"].value, rel=0.01
    )
    assert all(metrics[f"{page.name}_per_s"].value > 0 for page in PAGES)
    assert "befriend" in (live.directory / "report.html").read_text()
    assert live.left() == {}
