"""What groups the machines of a comparison: declared, found, or nothing."""

import numpy as np
import pytest

from steelyard._base import UsageError
from steelyard.fleet.rue.compare import compare
from steelyard.fleet.rue.usage import RueSettings
from tests.fleet.rue.rue_samples import row, table_of

RACKS, EACH = 12, 8


def samples(names="m{at:03d}", *, by_rack=True, rack_sd=0.0, label=True):
    """Return a sample of each machine, with the rack in its name, in a label, or nowhere."""
    random = np.random.default_rng(3)
    factor = np.exp(rack_sd * random.standard_normal(RACKS))
    rows = []
    for at in range(RACKS * EACH):
        rack = at // EACH
        arm = rack % 2 if by_rack else at % 2
        rows.append(
            row(
                machine=names.format(rack=rack, at=at),
                task=f"search/{at}",
                cpu_s=float(30 * factor[rack] * random.lognormal(0, 0.1)),
                labels={"config": "new" if arm else "old"} | ({"rack": f"r{rack}"} if label else {}),
            )
        )
    return table_of(rows)


def alike(table, **changed):
    (one,) = compare(table, RueSettings("config", labels=("rack",), baseline="old", **changed)).comparisons
    return one


def test_racks_that_were_assigned_are_the_draws():
    one = alike(samples())
    assert (one.alike.name, one.alike.groups, one.alike.assigned) == ("rack", (6, 6), True)
    assert not one.choice.inseparable, "many racks of each are noise, no part of the difference"
    assert one.reweighted.speedup.once is not None


def test_racks_are_found_in_names():
    one = alike(samples("rack{rack}-m{at}", label=False))
    assert (one.alike.name, one.alike.groups) == ("name", (6, 6))
    assert alike(samples(label=False)).alike is None


def test_racks_with_both_configurations_count_only_where_they_differ_more_than_chance():
    assert alike(samples(by_rack=False)).alike is None


def test_what_is_declared_is_taken_and_none_is_none():
    declared = alike(samples(by_rack=False), cluster_by="rack")
    assert (declared.alike.declared, declared.alike.assigned) == (True, False)
    assert alike(samples(), cluster_by="none").alike is None
    with pytest.raises(UsageError, match="cannot cluster by 'row'"):
        alike(samples(), cluster_by="row")
    with pytest.raises(UsageError, match="no machine's name"):
        RueSettings("config", cluster_by="name", replicate="task")


def test_racks_widen_the_interval():
    table = samples(rack_sd=0.2)
    by_rack, by_machine = alike(table), alike(table, cluster_by="none", strata=())
    widths = [
        np.log(one.reweighted.speedup.once[1] / one.reweighted.speedup.once[0])
        for one in (by_rack, by_machine)
    ]
    assert widths[0] > 2 * widths[1]
    assert by_rack.alike.design_effect > 3
