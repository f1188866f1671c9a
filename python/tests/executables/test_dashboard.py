"""The Grafana dashboard of agents asks only for metrics that their page has, by labels that these have."""

import json
import re

from .servers import ROOT

DASHBOARD = ROOT / "deploy" / "grafana" / "steelyard-agents.json"
REFERENCE = ROOT / "docs" / "reference" / "agent.md"


def queries() -> list[str]:
    """Return every expression of PromQL in the dashboard."""
    document = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in document["panels"] for target in panel.get("targets", [])]
    return found + [one["query"] for one in document["templating"]["list"] if one["type"] == "query"]


def test_every_metric_that_the_dashboard_asks_for_is_on_the_agents_page() -> None:
    # A test of the agent holds this table equal to its page.
    page = set(re.findall(r"^\| `(steelyard_\w+)` \|", REFERENCE.read_text(), flags=re.MULTILINE))
    asked = {name for query in queries() for name in re.findall(r"steelyard_\w+", query)}
    assert asked
    assert asked <= page, asked - page


def test_every_panel_has_a_place_a_unit_and_a_number_of_its_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or panel["fieldConfig"]["defaults"]["unit"]


def test_counters_are_asked_for_as_rates_or_totals() -> None:
    for query in queries():
        for name in re.findall(r"steelyard_\w+_total", query):
            assert re.search(rf"(rate|increase|sum)\({name}", query), query
