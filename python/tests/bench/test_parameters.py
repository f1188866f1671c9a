import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.bench.parameters import Parameter, Settings, format_value, parse_assignments

MEMORY = Parameter("memory", "bytes", "d", default=1 << 20, minimum=1024, maximum=1 << 40)
RATIO = Parameter("ratio", "ratio", "d", default=0.9, minimum=0.0, maximum=1.0)
COUNT = Parameter("threads", "count", "d", default=4, minimum=1, maximum=64)
TIME = Parameter("measure", "seconds", "d", default=10.0, minimum=0.1, maximum=3600.0)
FLAG = Parameter("fill", "flag", "d", default=False)
CHOICE = Parameter("io", "choice", "d", default="auto", choices=("auto", "uring"))


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (MEMORY, "1GiB", 1 << 30),
        (MEMORY, "1.5 KiB", 1536),
        (MEMORY, "4096", 4096),
        (RATIO, "0.5", 0.5),
        (COUNT, "64", 64),
        (TIME, "100ms", 0.1),
        (TIME, "2m", 120.0),
        (TIME, "5", 5.0),
        (FLAG, "Yes", True),
        (FLAG, "off", False),
        (CHOICE, "uring", "uring"),
    ],
)
def test_reads_what_people_type(parameter, text, value):
    assert parameter.parse(text) == value


@pytest.mark.parametrize(
    ("parameter", "text", "allowed"),
    [
        (MEMORY, "1", "1KiB..1TiB"),
        (MEMORY, "lots", "1KiB..1TiB"),
        (RATIO, "1.1", "0..1"),
        (RATIO, "nan", "0..1"),
        (COUNT, "2.5", "1..64"),
        (COUNT, "4x", "1..64"),
        (TIME, "2 weeks", "0.1s..3600s"),
        (FLAG, "maybe", "true|false"),
        (CHOICE, "epoll", "auto|uring"),
    ],
)
def test_refuses_in_one_line_that_names_what_is_allowed(parameter, text, allowed):
    with pytest.raises(UsageError) as refused:
        parameter.parse(text)
    assert allowed in refused.value.message
    assert parameter.name in refused.value.message
    assert "\n" not in refused.value.message


@given(st.integers(min_value=1024, max_value=1 << 40))
def test_sizes_survive_being_written_and_read(size):
    assert MEMORY.parse(format_value(MEMORY, size)) == size


@given(st.floats(min_value=0.1, max_value=3600.0))
def test_times_survive_being_written_and_read(seconds):
    assert TIME.parse(format_value(TIME, seconds)) == pytest.approx(seconds)


@given(st.integers(min_value=0, max_value=2**53))
def test_counts_keep_every_digit(number):
    seed = Parameter("seed", "count", "d", minimum=0, maximum=2**53)
    assert seed.parse(str(number)) == number


def test_the_chosen_wins_over_the_machine_and_the_machine_over_the_default():
    settings = Settings.resolve(
        [MEMORY, COUNT, RATIO],
        {"memory": "2KiB"},
        lambda asked: {"memory": 1, "threads": int(asked["memory"]) // 512},
        owner="tao",
    )
    assert dict(settings) == {"memory": 2048, "threads": 4, "ratio": 0.9}
    assert [settings.source(name) for name in settings] == ["set", "machine", "default"]


def test_an_unknown_name_is_refused_with_the_valid_ones():
    with pytest.raises(UsageError) as refused:
        Settings.resolve([MEMORY, COUNT], {"memroy": "1GiB"}, owner="tao")
    assert "did you mean memory?" in refused.value.message
    assert refused.value.hint == "valid names: memory, threads"


def test_what_nobody_chose_is_asked_for():
    with pytest.raises(UsageError, match="cpus"):
        Settings.resolve([Parameter("cpus", "ratio", "d", minimum=0.0)], {}, owner="hook cpu-limit")


@pytest.mark.parametrize("text", ["memory", "=1", "memory=1 memory=2"])
def test_assignments_need_a_name_and_a_value(text):
    if text.count("=") == 2:
        with pytest.raises(UsageError, match="twice"):
            parse_assignments(text.split())
    else:
        with pytest.raises(UsageError, match="name=value"):
            parse_assignments([text])
