"""A store in a bucket, on a real S3 server over HTTP: written, read, compacted, expired as in a folder."""

import urllib.request

import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.cli.main import invoke
from steelyard.fleet.store.compact import compact_store
from steelyard.fleet.store.files import Place
from steelyard.fleet.store.store import open_store
from tests.fleet.fleet_rows import DAY, TRUE, rows
from tests.fleet.store.s3 import s3_server


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """An empty bucket, and the environment that leads to it."""
    with s3_server(tmp_path) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        request = urllib.request.Request(f"{address}/fleet", method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
        yield "s3://fleet/a store"


def test_a_bucket_is_a_store(bucket, capsys):
    from steelyard.fleet.store.store import write_rows
    from tests.fleet.fleet_rows import read_url

    with pytest.raises(EnvironmentLacksError, match="not a store"):
        open_store(bucket)
    for windows in (3, 2):
        write_rows(bucket, "task_samples", rows(windows=windows), cluster="rack [1]*", date=DAY, machine="m1")
    assert read_url(bucket) == (TRUE, {})
    place = Place(bucket)
    (first, _) = place.entries("task_samples")
    place.write(first.path.replace("/m1.", "/half."), place.read(first.path)[:-9])
    got, reasons = read_url(bucket)
    assert got == TRUE
    assert [reason.partition(":")[0] for reason in reasons.values()] == ["unreadable"]
    assert invoke(["fleet", "check", "--store", bucket]) == 1
    assert "counted once: 4 rows that came again" in capsys.readouterr().out
    with open_store(bucket) as opened:
        compact_store(opened)
    assert read_url(bucket)[0] == TRUE
    assert sum("compact." in entry.path for entry in place.entries()) == 1
    assert invoke(["fleet", "expire", "--store", bucket, "--keep-days", "1", "--today", "2026-02-01"]) == 0
    assert place.entries("task_samples") == []


def test_a_server_that_is_away_is_reported_in_a_line(bucket, monkeypatch, capsys):
    assert invoke(["fleet", "check", "--store", "s3://nowhere/x"]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert invoke(["fleet", "check", "--store", "gs://nowhere/x"]) == 2
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert invoke(["fleet", "check", "--store", bucket]) == 3
    assert capsys.readouterr().err.count("\n") == 2
