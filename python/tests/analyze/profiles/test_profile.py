"""Folded files, the good, the bad and the huge."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import RecordError
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import (
    TRUNCATED,
    Frame,
    Profile,
    by_module,
    modules_of,
    parse_frame,
    weigh,
)
from tests.folded import folded, profile


def _stacks(one: Profile) -> dict[str, int]:
    return {
        ";".join([one.commands[command], *(one.frames[f].label for f in frames)]): count
        for command, frames, count in one.stacks()
    }


def test_a_function_of_several_programs_says_in_how_many_more_it_is(tmp_path: Path) -> None:
    one = profile(tmp_path, {"a;get [kv]": 3, "b;get [kv]": 1, "c;get [search]": 1, "c;put [search]": 1})
    assert modules_of(one, says_others=True) == {"get": "kv and 1 more", "put": "search"}
    assert modules_of(one)["get"] == "kv"


def test_facts_frames_and_counts(tmp_path: Path) -> None:
    one = profile(
        tmp_path,
        {"db;main [db];memcpy [libc.so.6]": 3, "db;main [db]": 2, "swapper;cpu_startup_entry [kernel]": 5},
        "# unit: samples\n# event: cpu-clock\n# hz: 99\n# lost: 7\n# something: else\n",
    )
    assert (one.total, one.unit, one.lost, one.facts["event"]) == (10, "samples", 7, "cpu-clock")
    assert one.whole_ratio is None
    assert _stacks(one)["db;main [db];memcpy [libc.so.6]"] == 3
    weights = weigh(one)
    counted = {
        key: (own, total) for key, own, total in zip(weights.keys, weights.own, weights.total, strict=True)
    }
    assert counted["main"] == (2, 5)
    assert counted["memcpy"] == (3, 3)
    assert modules_of(one)["memcpy"] == "libc.so.6"
    modules = weigh(one, by_module)
    assert dict(zip(modules.keys, modules.total.tolist(), strict=True)) == {
        "db": 5,
        "libc.so.6": 3,
        "kernel": 5,
    }


def test_every_reason_is_kept_and_whole_stacks_are_a_share(tmp_path: Path) -> None:
    head = "# reason: no cycles\n# user_stacks: 8\n# cut_stacks: 2\n# reason: no kernel symbols\n"
    one = profile(tmp_path, {"a;b": 1}, head)
    assert one.facts["reason"] == "no cycles; no kernel symbols"
    assert one.whole_ratio == 0.75
    assert profile(tmp_path, {"a;b": 1}, "# user_stacks: 2\n# cut_stacks: 3\n").whole_ratio is None


def test_recursion_counts_once_and_equal_lines_add_up(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text("a;f;g;f;g 2\na;f;g;f;g 3\n")
    one = read_folded(path)
    assert len(one.counts) == 1
    weights = weigh(one)
    assert dict(zip(weights.keys, weights.total.tolist(), strict=True)) == {"f": 5, "g": 5}


def test_idle_processors_are_counted_apart(tmp_path: Path) -> None:
    one = profile(
        tmp_path, {"swapper;do_idle [kernel];intel_idle [kernel]": 90, "db;main [db];intel_idle [db]": 10}
    )
    assert one.busy().total == 10
    assert one.busy().busy().total == 10
    nameless = profile(tmp_path, {"swapper/3;[unknown] [kernel]": 5, "db;[unknown] [kernel]": 2})
    assert nameless.busy().total == 2


def test_bad_lines_are_counted_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(
        b"a;b 1\nnocount\na;b -3\na;b 1e3\na;b "
        + b"9" * 5000
        + b"\n\xff\xfe\x00;\x1b[31mred 4\n\n;;; 2\na;b 0\n"
        b"x" * 1 + b"a;b \xe2\x80\xa8 7\n"
    )
    one = read_folded(path)
    assert one.reading.bad_lines == 4
    assert any("line 2: no count" in text for text in one.reading.examples)
    assert "4 of" in one.reading.sentences()[0]
    names = [frame.label for frame in one.frames] + list(one.commands)
    assert all(name.isprintable() for name in names), names


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no sample"),
        (b"# reason: perf_event_paranoid is 3\n", "perf_event_paranoid is 3"),
        (b"\x1f\x8b\x08\x00garbage\nmore garbage\n", "none of its 2 lines"),
        (b"a;b 4611686018427387904\na;c 4611686018427387904\n", "more than any profile"),
    ],
)
def test_files_without_stacks_are_refused_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "p"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=words) as caught:
        read_folded(path)
    assert "\n" not in caught.value.message


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(RecordError):
            read_folded(path)


def test_a_line_of_many_megabytes_is_one_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(b"a;" + b"f" * (3 << 20) + b" 1\na;b 2\n")
    one = read_folded(path)
    assert (one.total, one.reading.bad_lines, one.reading.lines) == (2, 1, 2)


def test_deep_stacks_keep_their_leaf(tmp_path: Path) -> None:
    one = profile(tmp_path, {"a;" + ";".join(f"f{i}" for i in range(5000)): 3})
    assert one.frames[int(one.leaves[0])].function == "f4999"
    assert one.frames[int(one.entries[0])].function == TRUNCATED
    assert (one.reading.cut_stacks, one.reading.cut_samples) == (1, 3)


def _many(folder: Path, stacks: int) -> Path:
    draw = np.random.default_rng(4)
    functions = [f"namespace_{i % 97}::function_{i} [lib{i % 31}.so]" for i in range(20_000)]
    path = folder / "p"
    with path.open("w") as file:
        for row in draw.integers(0, len(functions), size=(stacks, 20)).tolist():
            file.write(f"command{row[0] % 7};{';'.join([functions[at] for at in row])} 2\n")
    return path


def test_a_hundred_thousand_stacks_are_quick_and_small(tmp_path: Path) -> None:
    path = _many(tmp_path, 100_000)
    # In a process of its own: the peak of this one belongs to whatever ran before.
    program = (
        "import resource, sys; from pathlib import Path;"
        "import steelyard.analyze.profiles.profile as p, steelyard.analyze.profiles.folded as f; import time;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; begin = time.process_time();"
        "one = f.read_folded(Path(sys.argv[1])); w = p.weigh(one);"
        "print(len(one.counts), one.total, int(w.own.sum()),"
        " resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, time.process_time() - begin)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=_environment(),
    )
    count, total, own, peak_kib, cpu_s = map(float, done.stdout.split())
    assert (count, total, own) == (100_000, 200_000, 200_000)
    assert peak_kib < 150_000
    assert cpu_s < 10


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


def test_beyond_its_room_a_stack_keeps_its_leaf(tmp_path: Path) -> None:
    path = _many(tmp_path, 5000)
    whole, small = weigh(read_folded(path)), read_folded(path, entries=10_000)
    assert small.total == 10_000
    assert small.reading.cut_stacks > 4000
    assert "too deep or too many" in small.reading.sentences()[0]
    own = dict(zip(whole.keys, whole.own.tolist(), strict=True))
    narrow = weigh(small)
    kept = {key: n for key, n in zip(narrow.keys, narrow.own.tolist(), strict=True) if key != TRUNCATED}
    assert all(count <= own[key] for key, count in kept.items())
    named = read_folded(path, name_bytes=10_000)
    assert named.total == 10_000
    assert len(named.frames) < 100


def test_frames_of_other_tools() -> None:
    assert parse_frame("0x7f3a12") == Frame("[unknown]", None)
    assert parse_frame("x [unknown]") == Frame("x", None)
    assert parse_frame("vmx_exit [kernel.kallsyms]") == Frame("vmx_exit", "kernel")
    assert parse_frame("operator[]").function == "operator[]"
    assert parse_frame("").function == "[unknown]"


_names = st.text(st.characters(blacklist_characters=";\n\r", blacklist_categories=("Cs",)), max_size=12)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.lists(_names, min_size=1, max_size=6).map(";".join), st.integers(1, 1 << 40), max_size=8
    )
)
def test_no_sample_is_lost_whatever_the_names(
    tmp_path_factory: pytest.TempPathFactory, stacks: dict[str, int]
) -> None:
    path = folded(tmp_path_factory.mktemp("p"), stacks, "# unit: samples\nknown;frame 1\n")
    one = read_folded(path)
    assert one.total + 0 == int(np.sum(weigh(one).own))
    assert one.reading.bad_lines <= len(stacks)
    if not one.reading.bad_lines and not any(name.lstrip().startswith("#") for name in stacks):
        assert one.total == 1 + sum(stacks.values())


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_end_in_a_profile_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("p") / "p"
    path.write_bytes(content)
    refused = ""
    try:
        weigh(read_folded(path))
    except RecordError as error:
        refused = error.message
    assert "\n" not in refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # py-spy: no command before the functions, and a stack of one frame.
        (
            "work (app.py:7);step (my lib.py:9) 4\nwork (app.py:7) 3\n",
            {"[no command];work (app.py:7)": 3, "[no command];work (app.py:7);step (my lib.py:9)": 4},
        ),
        ("java/lang/Thread.run_[j];Work.step_[j] 2\n", {"[no command];java/lang/Thread.run;Work.step": 2}),
        (
            "runtime.goexit;main.main;main.(*Tree).find 2\n",
            {"[no command];runtime.goexit;main.main;main.(*Tree).find": 2},
        ),
        ("std::rt::lang_start;app::main 5\n", {"[no command];std::rt::lang_start;app::main": 5}),
        # The first frame is a command where it has no function's shape.
        ("thread (0x7F3A);work (app.py:7) 4\n", {"thread (0x7F3A);work (app.py:7)": 4}),
        ("[main tid=12];java/lang/Thread.run 4\n", {"[main tid=12];java/lang/Thread.run": 4}),
        ("main.py;step 4\nmain.py 2\n", {"main.py;step": 4, "main.py;[no stack]": 2}),
        ("python3.11;step 4\n", {"python3.11;step": 4}),
        ("java-4711/4712;step_[j];read_[k] 4\n", {"java-4711/4712;step;read [kernel]": 4}),
        # Whatever comments of Steelyard's own stand above, the first is the command.
        ("# unit: samples\nwork (app.py:7);step 4\n", {"work (app.py:7);step": 4}),
        # Tabs, carriage returns and a byte order mark.
        ("\ufeffsrv;main;hot\t3\r\nsrv;main;cold \t5\r\n", {"srv;main;hot": 3, "srv;main;cold": 5}),
        # rbspy, and the line that bcc draws between program and kernel.
        (
            "run - lib/app.rb:3;step - lib/app.rb:9 4\n",
            {"[no command];run - lib/app.rb:3;step - lib/app.rb:9": 4},
        ),
        ("srv;main;-;do_sys_open_[k] 4\n", {"srv;main;do_sys_open [kernel]": 4}),
        # A number within a name is no count.
        ("srv;operator 10 12\nsrv;main 4\n", {"srv;operator 10": 12, "srv;main": 4}),
    ],
)
def test_folded_stacks_of_others_are_read_as_meant(
    tmp_path: Path, text: str, expected: dict[str, int]
) -> None:
    path = tmp_path / "p.folded"
    path.write_text(text, encoding="utf-8")
    one = read_folded(path)
    assert _stacks(one) == expected
    assert one.reading.bad_lines == 0


def test_counts_with_fractions_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "p.folded"
    path.write_text("srv;hot 1.5\nsrv;cold 2\nsrv;hot 0.25\nsrv;none 0.0\nsrv;bad 1.5.2\n")
    one = read_folded(path)
    counts = {stack: one.in_unit(count) for stack, count in _stacks(one).items()}
    assert counts == {"srv;hot": 1.75, "srv;cold": 2.0}
    assert one.in_unit(one.total) == 3.75
    # They are no samples, whose noise would be known.
    assert one.unit == "counts"
    assert one.reading.examples == ("line 5: '1.5.2' is no count",)
    whole = profile(tmp_path, {"srv;hot": 3})
    assert (whole.scale, whole.unit, whole.in_unit(3)) == (1, "samples", 3)


def test_the_comparison_of_two_profiles_is_none(tmp_path: Path) -> None:
    path = tmp_path / "p.folded"
    path.write_text("srv;main;hot 10 12\nsrv;main;cold 5 7\n")
    with pytest.raises(RecordError, match="two counts a line"):
        read_folded(path)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("", "CPU time"),
        ("# event: cpu-clock\n", "CPU time"),
        ("# event: cycles:ppp\n", "CPU time"),
        ("# unit: cycles\n# event: cycles\n", "CPU time"),
        ("# event: cpu_core/cycles/ + cpu_atom/cycles/\n", "CPU time"),
        ("# unit: nanoseconds\n# event: cpu\n", "CPU time"),
        ("# event: page-faults\n", "page-faults"),
        ("# unit: bytes\n# event: inuse_space\n", "inuse_space"),
        ("# unit: count\n# event: contentions\n", "contentions"),
        ("# unit: nanoseconds\n# event: delay\n", "delay"),
        ("# unit: microseconds\n# event: wall\n", "wall time"),
        ("# unit: bytes\n", "bytes"),
    ],
)
def test_what_counts_measure_has_its_own_name(tmp_path: Path, head: str, expected: str) -> None:
    assert profile(tmp_path, {"a;b": 1}, head).measured == expected
