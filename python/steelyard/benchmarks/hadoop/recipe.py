"""What benchmarks of Hadoop need: Java with its compiler, Maven, and the payload that they share."""

from steelyard.bench.stack.java import Java
from steelyard.bench.stack.recipe import Packages, Recipe
from steelyard.benchmarks.hadoop.profile import PAYLOAD

JAVA = Java((17, 21), needed_by="Hadoop 3.4", compiles=True)
"""On 25 its services end at once: Java no longer has what they ask for the user (`Subject.getSubject`)."""
RECIPE = Recipe(
    packages=Packages(apt=("maven",), dnf=("maven",)),
    java=JAVA,
    payload=PAYLOAD,
    disk_bytes=600 << 20,
)
