"""Distributions: the invariants of a quantile function, and whether the shipped ones are what they claim."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import genextreme, genpareto

from steelyard import records
from steelyard._base import RecordError, data_dir
from steelyard.stats import distribution
from steelyard.stats.distribution import Distribution

CHECKOUT = Path(__file__).resolve().parents[3]


def of(points: list[tuple[float, float]]) -> Distribution:
    return Distribution(name="test", unit="bytes", provenance="test", quantiles=points)


@st.composite
def distributions(draw: st.DrawFn) -> Distribution:
    inner = draw(st.lists(st.floats(min_value=0.001, max_value=0.999), max_size=12, unique=True))
    quantiles = [0.0, *sorted(inner), 1.0]
    size = len(quantiles)
    sizes = draw(st.lists(st.floats(min_value=0, max_value=1e6), min_size=size, max_size=size))
    return of(list(zip(quantiles, sorted(sizes), strict=True)))


@given(distributions())
def test_mean_is_that_of_a_fine_grid(sizes: Distribution) -> None:
    values = sizes.at((np.arange(200_000) + 0.5) / 200_000)
    assert sizes.mean() == pytest.approx(float(values.mean()), rel=1e-3, abs=1e-3)


@given(distributions(), st.floats(min_value=0, max_value=1))
def test_the_distribution_function_undoes_the_quantile_function(sizes: Distribution, quantile: float) -> None:
    value = float(sizes.at(quantile))
    assert sizes.quantiles[0][1] <= value <= sizes.quantiles[-1][1]
    # At least: where the quantile function is flat the distribution function jumps beyond.
    assert float(sizes.probability_below(value * (1 + 1e-9) + 1e-6)) >= quantile - 1e-6
    assert float(sizes.at(float(sizes.probability_below(value)))) == pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(0, 1)],
        [(0.1, 1), (1, 2)],
        [(0, 1), (0.5, 2)],
        [(0, 2), (1, 1)],
        [(0, -1), (1, 1)],
        [(0, 1), (0, 2), (1, 3)],
    ],
)
def test_what_is_no_quantile_function_is_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValidationError):
        of(points)


def test_an_unknown_major_version_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "sizes.json"
    text = of([(0, 1), (1, 2)]).model_dump_json()
    path.write_text(text.replace('"1.0"', '"2.0"'), encoding="utf-8")
    with pytest.raises(RecordError, match=r"schema version 2.0 of distribution is not supported"):
        distribution.load(path)


def tao(name: str) -> Distribution:
    return distribution.load(distribution.path_of("tao", name))


def test_object_sizes_have_the_published_quantiles_and_mean() -> None:
    sizes = tao("object-sizes")
    for quantile, bound in ((0.5, 223), (0.9, 511), (0.99, 2271), (1, 65536)):
        assert float(sizes.at(quantile)) <= bound
        assert float(sizes.at(quantile)) == pytest.approx(bound, rel=0.005)
    assert sizes.mean() == pytest.approx(326, rel=0.02)
    # As the data plane draws them: at a uniform number, to whole bytes.
    values = np.round(sizes.at(np.random.default_rng(1).random(1_000_000)))
    assert values.mean() == pytest.approx(326, rel=0.02)
    assert values.min() >= 16


def distance(sizes: Distribution, closed: object, low: float, high: float) -> float:
    """Kolmogorov distance to a closed form that is bounded to ``low`` .. ``high``."""
    grid = np.concatenate([np.linspace(low, high, 50_000), sizes.at(np.linspace(0, 1, 50_000))])
    begin, end = closed.cdf(low), closed.cdf(high)  # type: ignore[attr-defined]
    expected = (closed.cdf(grid) - begin) / (end - begin)  # type: ignore[attr-defined]
    return float(np.abs(sizes.probability_below(grid) - expected).max())


def test_key_sizes_follow_the_published_closed_form() -> None:
    # The paper's shape has the opposite sign of scipy's.
    closed = genextreme(-0.078688, loc=30.7984, scale=8.20449)
    sizes = tao("key-sizes")
    assert distance(sizes, closed, 16, 250) < 0.002
    assert sizes.mean() == pytest.approx(closed.mean(), rel=0.02)


def test_etc_value_sizes_follow_the_published_closed_form() -> None:
    closed = genpareto(0.348238, loc=0, scale=214.476)
    sizes = tao("etc-value-sizes")
    assert distance(sizes, closed, 0, 1 << 20) < 0.002
    assert sizes.mean() == pytest.approx(closed.mean(), rel=0.02)


def test_twitter_like_values_have_the_published_median() -> None:
    sizes = tao("twitter-value-sizes")
    assert float(sizes.at(0.5)) == pytest.approx(230, rel=0.01)
    # A log-normal's mean is exp(1/2) medians.
    assert sizes.mean() == pytest.approx(230 * math.exp(0.5), rel=0.02)


def generator() -> ModuleType:
    path = CHECKOUT / "scripts" / "make_tao_distributions.py"
    specification = importlib.util.spec_from_file_location("make_tao_distributions", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_files_are_what_the_script_writes() -> None:
    files = generator().files()
    names = {"object-sizes.json", "key-sizes.json", "etc-value-sizes.json", "twitter-value-sizes.json"}
    assert names == set(files)
    for name, text in files.items():
        assert (data_dir() / "tao" / name).read_text(encoding="utf-8") == text, name


def test_every_file_says_where_it_comes_from_and_stands_in_the_readme() -> None:
    folder = data_dir() / "tao"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for path in sorted(folder.glob("*.json")):
        assert f"`{path.name}`" in readme
    for name in ("object-sizes", "key-sizes", "etc-value-sizes", "twitter-value-sizes"):
        assert len(tao(name).provenance) > 20
        assert tao(name).unit == "bytes"


def test_popularity_names_its_choices() -> None:
    popularity = distribution.load_popularity(distribution.path_of("tao", "popularity"))
    assert popularity.choice().name == popularity.default == "uniform"
    assert popularity.choice().exponent == 0
    assert popularity.choice("zipf-0.99").exponent == 0.99
    assert popularity.choice("zipf-0.99").key_distribution == "zipf:0.99"
    with pytest.raises(KeyError):
        popularity.choice("normal")
    with pytest.raises(ValidationError):
        records.parse(
            distribution.Popularity, popularity.model_dump_json(), where="here"
        ).__class__.model_validate({**popularity.model_dump(), "default": "normal"})
