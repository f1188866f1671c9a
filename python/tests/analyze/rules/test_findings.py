"""Every rule speaks when it should, is silent when it should not or cannot know, and shows its evidence."""

from dataclasses import replace
from typing import Any

import pytest

from steelyard.analyze import Conditions, CpuSetUse, CpuUse, explain
from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.disks import DiskUse
from steelyard.analyze.facts.memory import MemoryUse
from steelyard.analyze.facts.network import NetworkUse
from steelyard.analyze.facts.power import Power
from steelyard.analyze.facts.pressure import PressureUse
from steelyard.analyze.facts.span import Span
from steelyard.analyze.rules.explain import load_rules
from steelyard.analyze.rules.findings import RULES, Rule, rule
from steelyard.analyze.services import CacheUse, GeneratorUse
from steelyard.analyze.values import Quantity
from tests.analyze.facts import changed


def q(value: float | None, unit: str = "1") -> Quantity:
    return Quantity.of(value, unit, "not here")


def cpus(name: str, members: tuple[int, ...], **modes: float) -> CpuSetUse:
    return CpuSetUse(name, members, CpuUse({**modes, "idle": 1 - sum(modes.values())}))


GENERATOR = GeneratorUse(
    q(0.5, "ratio"),
    1e5,
    q(200_000.0, "ns"),
    q(900_000.0, "ns"),
    q(1.0, "ns"),
    "open",
    depth=1,
    connections=64,
)
CACHE = CacheUse(
    10**9,
    q(1.0),
    q(1.0),
    q(0.9),
    q(0.0),
    q(0.0),
    q(40.0),
    q(10_000.0, "ns"),
    q(90_000.0, "ns"),
    q(0.9),
    {},
    {},
)
CARD = NetworkUse("eth0", q(1.0), q(1.0), q(1.0), q(1.0), q(0.0), q(1e9), q(0.1))
# A server that works well below every bound.
CALM = Conditions(
    Span(0, 10**9),
    cpus=Cpus(
        all=cpus("all", (0, 1), user=0.65, system=0.1),
        server=cpus("server", (0,), user=0.65, system=0.1),
        load=cpus("load", (1,), user=0.65, system=0.1),
    ),
    memory=MemoryUse(q(1e9), q(8e8), q(2e8), q(0.0)),
    pressure={"io": PressureUse(q(0.01), q(0.0)), "cpu": PressureUse(q(0.9), q(0.0))},
    network=[CARD],
    disks=[DiskUse("vda", q(0.0), q(0.0), q(0.1))],
    cache=CACHE,
    generator=GENERATOR,
    power=Power(throttles=q(0.0)),
)

TROUBLED: dict[str, Conditions] = {
    "server-cpus-saturated": changed(CALM, server=cpus("server", (0,), user=0.9, system=0.08)),
    "server-cpus-unused": changed(
        CALM, server=cpus("server", (0,), user=0.3), generator=replace(GENERATOR, loop="closed")
    ),
    "shared-cpus": changed(CALM, load=cpus("load", (0, 1), user=0.65)),
    "kernel-heavy": changed(CALM, server=cpus("server", (0,), user=0.3, system=0.3, softirq=0.2)),
    "generator-busy": replace(CALM, generator=replace(GENERATOR, busy_max_ratio=q(0.97))),
    "closed-loop-queue": replace(
        CALM, generator=replace(GENERATOR, loop="closed", connections=20, response_mean_ns=q(190_000.0, "ns"))
    ),
    "slow-queue": replace(CALM, cache=replace(CACHE, slow_wait_ns=q(300_000.0))),
    "network-near-line-rate": replace(CALM, network=[replace(CARD, line_ratio=q(0.92))]),
    "network-loss": replace(CALM, network=[replace(CARD, lost_per_s=q(12.0))]),
    "disk-busy": replace(CALM, disks=[DiskUse("vda", q(0.0), q(0.0), q(0.95))]),
    "memory-low": replace(CALM, memory=MemoryUse(q(1e9), q(2e7), q(9e8), q(0.0))),
    "pressure": replace(CALM, pressure={"memory": PressureUse(q(0.3), q(0.1))}),
    "steal": changed(CALM, all=cpus("all", (0, 1), user=0.65, steal=0.05)),
    "thermal": changed(CALM, throttles=q(3.0)),
    "long-tail": replace(CALM, generator=replace(GENERATOR, response_p99_ns=q(9_000_000.0))),
}


def test_work_of_others_is_not_called_the_servers() -> None:
    trouble = changed(TROUBLED["server-cpus-saturated"], is_objected=True)
    assert [finding.id for finding in explain(trouble)] == []


def test_every_rule_of_a_run_with_load_has_a_case_here() -> None:
    load_rules()
    assert set(TROUBLED) == {
        name for name, each in RULES.items() if each.answer.__module__ == "steelyard.analyze.rules.load"
    }


@pytest.mark.parametrize("name", sorted(TROUBLED))
def test_a_rule_speaks_of_its_trouble_alone(name: str) -> None:
    found = explain(TROUBLED[name])
    assert [finding.id for finding in found] == [name]
    finding = found[0]
    assert finding.claim.endswith(".")
    assert finding.next_step
    assert finding.evidence
    assert 0 <= finding.weight <= 1
    assert finding.gain
    assert finding.threshold


def test_nothing_is_claimed_of_a_calm_server_nor_of_an_unknown_one() -> None:
    assert explain(CALM) == []
    assert explain(Conditions(Span(0, 1))) == []
    unknown: dict[str, Any] = {
        "network": [replace(CARD, line_ratio=q(None), lost_per_s=q(None))],
        "memory": None,
    }
    assert explain(replace(CALM, **unknown)) == []


def test_the_weightiest_comes_first() -> None:
    both = changed(TROUBLED["long-tail"], server=cpus("server", (0,), user=0.99))
    assert [finding.id for finding in explain(both)] == ["server-cpus-saturated", "long-tail"]


def test_a_rule_id_is_taken_once() -> None:
    with pytest.raises(ValueError, match="is already registered"):
        rule("steal", "again?", area="cpu", threshold="none")(lambda cpus: None)


def test_rules_may_be_chosen() -> None:
    chosen = [Rule("quiet", "?", lambda: None)]
    assert explain(TROUBLED["steal"], chosen) == []


def test_a_rate_that_was_chosen_leaves_cpus_unused_by_right() -> None:
    assert explain(changed(CALM, server=cpus("server", (0,), user=0.3))) == []


def test_pressure_on_io_needs_a_disk_that_works() -> None:
    waiting = replace(
        CALM, pressure={"io": PressureUse(q(0.5), q(0.0))}, disks=[DiskUse("vda", q(0.0), q(0.0), q(0.01))]
    )
    assert explain(waiting) == []
    working = replace(waiting, disks=[DiskUse("vda", q(0.0), q(0.0), q(0.3))])
    assert [finding.id for finding in explain(working)] == ["pressure"]


def test_a_share_of_all_the_time_has_a_gain_without_bound() -> None:
    whole = changed(CALM, server=cpus("server", (0,), user=0.0, system=1.0))
    found = {finding.id: finding for finding in explain(whole)}
    assert "over 100 x" in found["kernel-heavy"].gain
