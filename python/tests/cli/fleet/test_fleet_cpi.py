"""``steelyard fleet cpi`` from the outside: tables, JSON, pages, exit codes."""

import json
import re
from pathlib import Path

import pytest

from steelyard.cli.main import invoke
from steelyard.fleet.store.store import create_store
from tests.fleet.simulated import simulated_store


@pytest.fixture(scope="module")
def store() -> str:
    return str(simulated_store())


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert invoke(["fleet", "cpi", *arguments, "--json"]) == 0
    out, _ = capsys.readouterr()
    return json.loads(out)


def test_specs_are_shown_with_settings_and_reasons(store, capsys, tmp_path) -> None:
    page = tmp_path / "specs.html"
    found = _json(capsys, "specs", "--store", store, "--sigmas", "3", "--report", str(page))
    assert found["settings"]["threshold_sigmas"] == 3
    for spec in found["specs"]:
        assert (spec["threshold_cpi"] is None) == (spec["missing"] is not None)
        if spec["threshold_cpi"] is not None:
            assert spec["threshold_cpi"] == pytest.approx(spec["cpi_mean"] + 3 * spec["cpi_sd"])
    text = page.read_text()
    assert "mean + 3 sd" in text
    assert re.search(rf"\d+ of {len(found['specs'])} pairs of job and platform have a spec", text)
    assert invoke(["fleet", "cpi", "distribution", "--store", str(store)]) == 0
    assert re.search(r"CPI of \d+ pairs of job and platform", capsys.readouterr().out)
    assert '"id":"cpi-0"' in text
    fewer = _json(capsys, "specs", "--store", store, "--threshold", "gev", "--job", "search-leaf")
    assert {spec["job"] for spec in fewer["specs"]} == {"search-leaf"}
    assert all(spec["threshold_cpi"] == spec["gev_threshold_cpi"] for spec in fewer["specs"])


def test_outliers_and_incidents_name_tasks(store, capsys, tmp_path) -> None:
    found = _json(capsys, "outliers", "--store", store, "--specs", "computed")
    assert found["anomalous_tasks"] == len(found["tasks"]) > 0
    assert sum(job["anomalous_tasks"] for job in found["jobs"]) == found["anomalous_tasks"]
    # Half of the groups have too few tasks here: that they are not judged stands beside what is.
    assert found["settings"]["specs"] == (
        "16 specs from the same samples, mean + 2 sd"
        " (32 of 48 groups of job and platform have no threshold and are not judged)"
    )
    page = tmp_path / "incidents.html"
    found = _json(capsys, "incidents", "--store", store, "--specs", "computed", "--report", str(page))
    assert found["truth_curve"]
    named = [one for one in found["incidents"] if one["antagonist"]]
    assert named
    assert found["settings"]["rule"] == "tested"
    for one in named:
        evidence = one["antagonist"]["evidence"]
        assert evidence is None or (evidence["p_value"] <= 0.01 and evidence["refusal"] is None)
        assert one["cap"] is None or one["cap"]["job_class"] in ("batch", "best-effort")
    text = page.read_text()
    assert '"id":"incident-0-cpi"' in text
    assert '"id":"truth"' in text


def test_names_of_the_rule_are_counted_apart_from_names_of_agents(store, capsys) -> None:
    words = ("incidents", "--store", store, "--specs", "computed")
    found = _json(capsys, *words)
    alone = [one["seen_by"] == "agent" for one in found["incidents"] if one["antagonist"]]
    by_rule, by_agents = alone.count(False), alone.count(True)
    assert by_agents
    assert found["truth"]["named"] == by_rule
    assert invoke(["fleet", "cpi", *words]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"named by the rule in {by_rule}, by agents alone in {by_agents} more" in text
    assert f"Of the {by_rule} names by the rule above" in text


def test_the_papers_rule_is_kept_and_called_so(store, capsys) -> None:
    found = _json(capsys, "incidents", "--store", store, "--specs", "computed", "--rule", "paper")
    assert found["settings"]["rule"] == "paper"
    named = [one for one in found["incidents"] if one["antagonist"]]
    assert named
    assert all(one["antagonist"]["correlation"] >= 0.35 for one in named)


def test_distribution_is_drawn_for_one_job(store, capsys, tmp_path) -> None:
    page = tmp_path / "distribution.html"
    words = (
        "--job",
        "search-leaf",
        "--platform",
        "intel-westmere",
        "--min-tasks",
        "2",
        "--report",
        str(page),
    )
    (found,) = _json(capsys, "distribution", "--store", store, *words)["distributions"]
    # Two days alike, of which the first weighs 0.9.
    assert sum(found["bins"]["weight"]) == pytest.approx(0.95 * found["spec"]["samples"], rel=0.01)
    assert found["gev"]["distance"] < 0.1
    assert "search-leaf" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["specs", "--threshold", "mean"], 2, "unknown threshold 'mean'"),
        (["specs", "--sigmas", "-1"], 2, "threshold above the mean"),
        (["specs", "--quantile", "2"], 2, "not between 0 and 1"),
        (["outliers", "--specs", "none"], 2, "stored or computed"),
        (["outliers", "--specs", "stored"], 1, "the store has no specs"),
        (["outliers"], 1, "no job has a spec"),
        (["incidents", "--window", "601"], 2, "whole number of alignment spans"),
        (["incidents", "--floor", "7"], 2, "between -1 and 1"),
        (["incidents", "--rule", "mine"], 2, "unknown rule 'mine'"),
        (["incidents", "--evidence-window", "1200"], 2, "20 windows of 60 s are too few for a p value"),
    ],
)
def test_what_cannot_be_done_is_reported_in_one_line(arguments, code, words, tmp_path: Path, capsys) -> None:
    create_store(str(tmp_path / "empty"))
    assert invoke(["fleet", "cpi", *arguments, "--store", str(tmp_path / "empty")]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_an_empty_store_has_no_spec_and_says_so(tmp_path: Path, capsys) -> None:
    create_store(str(tmp_path / "empty"))
    for command in ("specs", "distribution"):
        assert invoke(["fleet", "cpi", command, "--store", str(tmp_path / "empty")]) == 1
    assert invoke(["fleet", "cpi", "specs", "--store", str(tmp_path / "none")]) == 3
