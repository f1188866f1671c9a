"""What files and steps say of a curve's machine, and what siblings of others are worth."""

from __future__ import annotations

import pytest

from steelyard._base import UsageError
from steelyard.analyze.scaling.curve import Place, steps_of
from steelyard.analyze.scaling.machine import topology_of, topology_of_places, worth_of
from steelyard.analyze.scaling.measured import parse_curve
from steelyard.analyze.scaling.scaling import Scaling, analyse
from steelyard.report.scale.words import notes, sentences
from steelyard.stats.scaling.choice import Topology


@pytest.mark.parametrize(
    ("head", "rows", "expected"),
    [
        ("cpus,ops_per_s", "1,1\n2,2\n", Topology()),
        # The only column that counts: no topology.
        ("cores,ops_per_s", "1,1\n2,2\n", Topology()),
        ("cpus,ops_per_s,cores,threads_per_core", "1,1,8,2\n2,2,8,2\n", Topology(16, 8, 2)),
        ("threads,ops_per_s,cpus_of_machine,threads_per_core", "1,1,8,2\n2,2,8,2\n", Topology(8, 4, 2)),
        (
            "cpus,ops_per_s,machine_cpus,threads_per_core,nodes",
            "1,1,64,1,4\n",
            Topology(64, 64, 1, (16, 32, 48)),
        ),
        # The kernel places threads on all nodes.
        ("threads,ops_per_s,machine_cpus,threads_per_core,nodes", "1,1,64,1,4\n", Topology(64, 64, 1)),
        # Nodes of each step.
        ("cpus,ops_per_s,numa_nodes", "1,1,1\n8,8,1\n16,16,2\n", Topology(node_ends=(8,))),
    ],
)
def test_columns_name_cores_siblings_and_nodes(head: str, rows: str, expected: Topology) -> None:
    assert topology_of(parse_curve(f"{head}\n{rows}", name="curve.csv")) == expected


def test_steps_of_an_experiment_show_where_cores_and_nodes_end() -> None:
    places = {
        4: Place("0-3", False, 1),
        8: Place("0-7", False, 1),
        16: Place("0-15", False, 2),
        32: Place("0-31", True, 2),
    }
    assert topology_of_places(places, None, 2) == Topology(None, 16, 2, (8,))
    assert topology_of_places(places, 20, 2) == Topology(None, 20, 2, (8,))
    # More cores than could be used.
    assert topology_of_places(places, 64, 2).cores == 16
    assert topology_of_places({1: Place("0", False, None)}, None, None) == Topology()


def _curve(machine_cpus: int, rates: dict[int, float]) -> str:
    lines = [f"{count},{machine_cpus},2,{rate}\n" for count, rate in rates.items()]
    return "threads,machine_cpus,threads_per_core,ops_per_s\n" + "".join(lines)


HALF = _curve(16, {1: 2000, 2: 3990, 3: 5980, 4: 7970, 6: 11930, 8: 15900})
OTHER = _curve(8, {1: 2010, 2: 4000, 3: 6010, 4: 7990, 5: 8600, 6: 9180, 7: 9790, 8: 10380})


def _scaled(text: str, *predict: int, siblings_of: str | None = None) -> Scaling:
    trials = parse_curve(text, name="curve")
    worth = None if siblings_of is None else worth_of({"other.csv": parse_curve(siblings_of, name="other")})
    return analyse(steps_of(trials), topology=topology_of(trials), predict=predict, worth=worth)


def test_siblings_of_another_machine_tell_what_these_would_add() -> None:
    alone = _scaled(HALF, 12, 16, 32)
    assert [one.ops_per_s for one in alone.predictions] == [None] * 3
    reasons = [one.reason or one.basis or "" for one in alone.predictions]
    assert [reason[:32] for reason in reasons[:2]] == ["CPUs beyond 8 are siblings, and "] * 2
    assert reasons[2] == "the machine has 16 CPUs"
    scaling = _scaled(HALF, 12, 16, siblings_of=OTHER)
    for found, truth in zip(scaling.predictions, (15900 * 1.15, 15900 * 1.3), strict=True):
        assert found.ops_per_s == pytest.approx(truth, rel=0.02)
        assert found.low is not None
        assert found.high is not None
        assert found.low < truth < found.high
    basis = scaling.predictions[0].basis
    assert basis is not None
    assert basis.startswith("siblings worth 0.295 of a core: the curve of other.csv")


def test_a_curve_that_does_not_tell_what_siblings_are_worth_is_refused() -> None:
    with pytest.raises(UsageError, match="does not say where cores end"):
        worth_of({"a.csv": parse_curve("cpus,ops_per_s\n1,1\n2,2\n", name="a.csv")})
    with pytest.raises(UsageError, match="does not tell what siblings are worth: the model of it is law"):
        worth_of({"half.csv": parse_curve(HALF, name="half.csv")})


def test_sentences_name_what_bends_the_curve() -> None:
    assert any(
        text.startswith("cores end at 4 threads: each sibling beyond is worth 0.2")
        for text in sentences(_scaled(OTHER))
    )
    flat = "cpus,ops_per_s\n" + "".join(f"{n},{100 * min(n, 8)}\n" for n in (1, 2, 4, 8, 16, 32))
    assert any(text.startswith("throughput has a ceiling of") for text in sentences(_scaled(flat)))
    level = "cpus,ops_per_s\n" + "".join(
        f"{n},{100 * n * (0.7 if n > 16 else 1)}\n" for n in (1, 2, 4, 8, 16, 24, 32, 48, 64)
    )
    said = " ".join(sentences(_scaled(level)))
    assert "between 16 and 24 CPUs throughput is lower by 30%" in said


def test_a_misfit_is_the_first_thing_that_is_said() -> None:
    odd = "cpus,ops_per_s\n" + "".join(
        f"{n},{100 * n * (0.65 if n == 8 else 1)}\n" for n in (1, 2, 4, 8, 16, 32)
    )
    found = _scaled(odd, 64)
    assert sentences(found)[0].startswith("no model fits: readings are up to ")
    assert "one block cannot distinguish this from noise" in sentences(found)[0]
    assert found.predictions[0].ops_per_s is None
    assert not any("from the model" in note for note in notes(found))


@pytest.mark.parametrize("blocks", [1, 5])
def test_a_loss_within_the_noise_has_no_cause(blocks: int) -> None:
    factors = (1.05, 0.97, 1.02, 0.96, 1.04, 0.98, 0.94)
    rows = [
        f"{2**at},{100 * 2**at * factors[(at + 2 * block) % 7]},{block},10,{10 * 2**at}\n"
        for block in range(blocks)
        for at in range(7)
    ]
    found = _scaled("cpus,ops_per_s,block,elapsed_s,cpu_s\n" + "".join(rows))
    assert found.loss is not None
    assert not found.loss.is_clear
    assert not any("less at 64 CPUs" in text for text in sentences(found))
