"""Made-up machines whose target is known: processors of generations, sizes, and what they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard.decide.projection.features import Features, Floats
from steelyard.decide.tables.model import MachineTable, MeasuredMachine, Measurement, ResultColumn

Random = np.random.Generator
SIZES = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class World:
    """A made-up world; standard deviations are of logarithms."""

    processors: int = 14
    machines: int = 4
    """Of each processor."""
    noise: float = 0.03
    """Of each result and of the target."""
    family: float = 0.12
    """Of the target of a processor, over what its results say."""
    tails: float = 0.0
    """Degrees of freedom of Student's t that a family's deviation has; 0 is normal."""
    collapse: float = 0.0
    """Power of the size by which the target of some processors falls from 16 CPUs on."""


def fleet(random: Random, world: World, largest: int = SIZES[-1]) -> MachineTable:
    """Return machines with four results and the target ``web``; the last processor is like the others."""
    sizes = [size for size in SIZES if size <= largest]
    rows = []
    for number in range(world.processors):
        generation = random.uniform(0, 5)
        core, memory = 0.12 * generation + 0.1 * random.normal(), 0.1 * generation + 0.15 * random.normal()
        deviate = random.standard_t(world.tails) if world.tails else random.normal()
        family = world.family * deviate
        falls = world.collapse if random.random() < 0.5 else 0.0
        for index in range(world.machines):
            cpus = float(random.choice(sizes))
            scale = 0.9 * np.log(cpus)
            own = world.noise * random.normal(size=5)
            web = 0.7 * core + 0.3 * memory + scale + family + own[4]
            web -= falls * max(0.0, np.log(cpus / 16))
            results = {
                "integer": core + own[0],
                "integer_rate": core + scale + own[1],
                "stream": memory + 0.6 * np.log(cpus) + own[2],
                "compress": 0.5 * core + 0.5 * memory + own[3],
                "web": web,
            }
            name = f"p{number}-{index}"
            values = {key: Measurement(((float(np.exp(5 + value)),),)) for key, value in results.items()}
            rows.append(MeasuredMachine(name, {"processor": f"P {number}", "cpus": cpus}, values))
    columns = tuple(
        ResultColumn(name, "1/s") for name in ("integer", "integer_rate", "stream", "compress", "web")
    )
    return MachineTable(tuple(rows), columns)


def hidden(table: MachineTable, names: set[str], target: str = "web") -> MachineTable:
    """Return the table without the target of some machines."""
    machines = tuple(
        MeasuredMachine(
            one.name,
            one.attributes,
            {key: value for key, value in one.results.items() if key != target or one.name not in names},
        )
        for one in table.machines
    )
    return MachineTable(machines, table.results)


def features(sizes: Floats) -> Features:
    """Return features of machines of which the size alone is known, as a logarithm."""
    anchors = np.column_stack([np.zeros(len(sizes)), sizes])
    return Features(("cpus",), ("cpus",), sizes[:, None], anchors, ("", "cpus"), (False, True), sizes)
