"""Options that several requests have: one word for one thing, declared once.

Not here: those that say what is shown (``cli.options``), and of one request (beside it). It imports nothing
heavy: the help of every command is made of it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from steelyard._base.request import Option

RUNS = Path("runs")
"""The folder of runs unless another is named."""

Out = Annotated[
    Path, Option("Folder of runs; each run gets a new folder in it.", metavar="DIR", key=None, anew=True)
]
Chosen = Annotated[
    Mapping[str, str],
    Option(
        "Set a parameter; see `steelyard list parameters`.", flag="--set", metavar="NAME=VALUE", key="set"
    ),
]
Tier = Annotated[str | None, Option("Length of the runs: smoke, quick, standard or full.")]
Hooks = Annotated[
    Sequence[str],
    Option("Add a hook; see `steelyard list hooks`.", flag="--hook", metavar="NAME[:OPTION=VALUE,...]"),
]
ServerCpus = Annotated[str | None, Option("CPUs for the servers, such as 0-3,8.", metavar="LIST")]
LoadCpus = Annotated[str | None, Option("CPUs for the load generator, such as 0-3,8.", metavar="LIST")]
Ops = Annotated[
    Sequence[str],
    Option(
        "Look at a running service, as `characterize --ops`; repeatable.",
        flag="--ops",
        metavar="SOURCE",
        key="ops",
    ),
]
Window = Annotated[str | None, Option("How long a trial looks at the service (60s).", metavar="TIME")]
Budget = Annotated[str | None, Option("Begin no block after this time, such as 10min.", metavar="TIME")]
ToTheEnd = Annotated[bool, Option("Make all blocks, for the shorter interval of one look.")]
LeastEffect = Annotated[str, Option("Smallest difference that matters.", metavar="SHARE")]
OrderSeed = Annotated[int | None, Option("Seed of the order; random by default.", least=0)]
Timeout = Annotated[str, Option("Longest time of one command.", metavar="TIME")]
Compared = Annotated[
    str | None,
    Option(
        "What to compare: a metric of the benchmark, elapsed_s, cpu_s, or a number in the output.",
        flag="--metric",
        metavar="NAME[=REGEX]",
    ),
]
