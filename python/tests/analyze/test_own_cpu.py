"""What servers used of their CPUs, separated from what neighbours did on them."""

from dataclasses import replace

import pytest

from steelyard.analyze import Conditions, explain
from steelyard.analyze.own_cpu import OwnCpu, own_cpu
from steelyard.analyze.pressure.intensities import intensities
from steelyard.records import Metric
from tests.analyze.facts import changed
from tests.analyze.rules.test_ranking import cpus
from tests.analyze.rules.test_rules import CALM


def _metrics(**values: float) -> dict[str, Metric]:
    return {name: Metric(value=value, unit="1") for name, value in values.items()}


def _served(
    servers: float, *, kernel: float = 0.3, load_ratio: float | None = None, **changes: object
) -> Conditions:
    """Return two CPUs that are busy 98 % of the time, whose servers used ``servers`` of both."""
    use = cpus("all", (0, 1), user=0.6, system=0.38)
    own = OwnCpu(2 * servers, servers, kernel, None if load_ratio is None else 2 * load_ratio, load_ratio)
    seen = changed(CALM, target=None, all=use, server=replace(use, name="server"), own_cpu=own)
    return changed(seen, **changes)


def test_shares_are_of_the_cpus_that_each_side_may_use() -> None:
    metrics = _metrics(server_cpu_ratio=0.5, server_cpu_system_ratio=0.2, load_cpu_user_ratio=0.1)
    found = own_cpu(metrics | _metrics(load_cpu_system_ratio=0.05), 4, 2)
    assert found is not None
    assert (found.servers, found.kernel_ratio) == (2.0, pytest.approx(0.4))
    assert found.all == pytest.approx(2.3)
    # A load that was not measured, or is not there, adds nothing; without servers there is no figure.
    assert own_cpu(metrics, 4, 2).load is None  # type: ignore[union-attr]
    assert own_cpu(metrics, 4, None).all == 2.0  # type: ignore[union-attr]
    assert own_cpu(_metrics(load_cpu_user_ratio=0.1), 4, 2) is None
    assert own_cpu(None, 4, 2) is None


@pytest.mark.parametrize("used", [0.12, 0.27])
def test_busy_neighbours_are_no_pressure_of_a_run(used: float) -> None:
    seen = _served(used, has_load=False, is_objected=True)
    pressed = intensities(seen, None).cpu
    assert pressed.ratio == pytest.approx(used)
    assert not pressed.is_pressure_point
    assert pressed.evidence.startswith(f"the servers used {100 * used:.0f} % of 2 CPUs, other processes")
    assert seen.usage.blame.neighbours == pytest.approx(2 * (0.98 - used))
    assert not {"cpu-bound", "kernel-heavy"} & {finding.id for finding in explain(seen)}


def test_a_run_that_uses_the_cpus_itself_is_limited_by_them() -> None:
    seen = _served(0.95, has_load=False)
    assert intensities(seen, None).cpu.is_pressure_point
    assert "cpu-bound" in {finding.id for finding in explain(seen)}


def test_without_a_clock_of_its_own_nothing_is_concluded_beside_others() -> None:
    seen = changed(_served(0.9, has_load=False), own_cpu=None, is_objected=True)
    assert not {"cpu-bound", "kernel-heavy"} & {finding.id for finding in explain(seen)}
    assert "cpu-bound" in {finding.id for finding in explain(changed(seen, is_objected=False))}


def test_kernel_time_is_the_servers_and_its_gain_is_of_all_time() -> None:
    found = {finding.id: finding for finding in explain(_served(0.5, kernel=0.6))}
    kernel = found["kernel-heavy"]
    assert kernel.claim.startswith("60 % of the servers' CPU time is in the kernel")
    # Half of the time has CPU work, 60 % of it in the kernel: 30 % could go, 1 / 0.7.
    assert kernel.gain is not None
    assert kernel.gain.startswith("at most 1.4 x")
    assert kernel.explained_ratio == pytest.approx(0.3)


def test_what_shares_the_cpus_is_server_and_load_not_their_neighbours() -> None:
    shared = {"load": cpus("load", (0, 1), user=0.6, system=0.38), "has_load": True}
    ids = [
        {finding.id for finding in explain(_served(servers, load_ratio=load, **shared))}
        for servers, load in ((0.5, 0.4), (0.2, 0.1))
    ]
    assert ["shared-cpus" in each for each in ids] == [True, False]


def test_servers_that_served_nothing_get_no_finding_on_kernel_time_or_idle_cpus() -> None:
    # A frozen server on CPUs that neighbours keep busy for 55 %.
    half = cpus("server", (0, 1), user=0.45, system=0.1)
    frozen, slow = (
        {finding.id: finding for finding in explain(_served(used, kernel=0.66, has_load=True, server=half))}
        for used in (0.0002, 0.25)
    )
    assert not {"server-cpus-unused", "kernel-heavy"} & set(frozen)
    assert slow["server-cpus-unused"].claim.startswith("The server's CPUs are idle 45 % of the time")
    # From 25 % of their time to 70 %.
    assert slow["server-cpus-unused"].gain == "up to 2.8 x, if every CPU can be kept busy"
