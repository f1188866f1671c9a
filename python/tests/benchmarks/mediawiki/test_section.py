"""MediaWiki's tables of servers and stores, and what is missing."""

import json
from types import SimpleNamespace

import pytest

from steelyard.benchmarks.mediawiki import section
from steelyard.records import Metric
from steelyard.report.format import plain


@pytest.fixture
def data(tmp_path):
    metrics = {
        "requests_per_s": Metric(value=40.0, unit="1/s"),
        "server_cpu_ratio": Metric(value=0.95, unit="ratio"),
        "php_fpm_cpu_ratio": Metric(value=0.85, unit="ratio"),
        "memcached_hit_ratio": Metric(value=None, unit="ratio", missing="nothing was looked up"),
        "queries_per_request": Metric(value=12.25, unit="1"),
    }
    return SimpleNamespace(run=SimpleNamespace(metrics=metrics), folder=tmp_path)


def rows_of(table):
    return {row[0].text: [plain(cell.text) for cell in row[1:]] for row in table.rows}


def test_servers_and_stores(data):
    servers = rows_of(section._servers(data.run.metrics))
    assert servers["PHP-FPM"][0] == "85.0 %"
    assert servers["nginx"][0] == "–"
    stores = section._stores(data.run.metrics)
    assert rows_of(stores)["database queries"][0] == "12.2"
    assert stores.rows[0][1].raw == "nothing was looked up"


def test_the_wiki_is_described_where_the_run_says_so(data):
    assert section._wiki(data) == ""
    versions = {"mediawiki": "1.39.17", "php": "8.2.36", "nginx": "1.22.1", "memcached": "1.6.18"}
    facts = {"articles": 200, "pages": 440, "revisions": 1280, "versions": versions}
    (data.folder / "wiki.json").write_text(json.dumps(facts))
    assert section._wiki(data) == ""
    versions["mariadb"] = "10.11.19-MariaDB-0+deb12u1"
    (data.folder / "wiki.json").write_text(json.dumps(facts))
    sentence = section._wiki(data)
    assert sentence.startswith(
        "A generated wiki of 200 articles: 440 pages with 1,280 revisions. MediaWiki 1.39.17,"
    )
    assert "MariaDB 10.11.19," in sentence
