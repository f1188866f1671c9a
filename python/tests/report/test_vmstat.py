"""The table of vmstat's columns: figures, bars and reasons."""

import re
from types import SimpleNamespace
from typing import cast

from steelyard.analyze.pressure.vmstat_histograms import Histogram, histogram
from steelyard.report.answer import Fragment
from steelyard.report.assets import InPage
from steelyard.report.characterize.vmstat import _table, vmstat_sections
from steelyard.report.model import ReportData


def test_each_bin_has_a_bar_as_high_as_its_share() -> None:
    page = _table([histogram([1, 1, 1, 1, 3], "runnable", "1")])
    bars = re.findall(r'<rect x="\d+" y="[\d.]+" width="6" height="([\d.]+)"/>', page)
    assert [float(bar) for bar in bars] == [0.0, 26.0, 0.0, 6.5]
    assert "1 to 2: 4 of 5 readings" in page
    assert "3 to 4: 1 of 5 readings" in page


def test_a_value_that_was_seen_once_in_an_hour_is_seen() -> None:
    page = _table([histogram([0.0] * 3599 + [0.97], "steal", "ratio")])
    assert len(re.findall(r'height="1.5"', page)) == 1


def test_what_is_missing_has_its_reason_and_no_row() -> None:
    missing = Histogram.absent("interrupts", "1/s", "no <interrupts> here")
    data = cast(ReportData, SimpleNamespace(histograms=[missing, histogram([1, 2], "runnable", "1")]))
    (section,) = vmstat_sections(data)
    assert section.missing == (("interrupts", "no <interrupts> here"),)
    (fragment,) = section.blocks
    assert isinstance(fragment, Fragment)
    assert fragment.make(InPage()).count("<tr>") == 2
