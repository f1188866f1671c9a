"""What a node of Cassandra needs: Java, Maven, and the payload that benchmarks with a node share."""

from steelyard.bench.stack.java import Java
from steelyard.bench.stack.recipe import Packages, Recipe

PAYLOAD = "cassandra"
JAVA = Java((17, 21), needed_by="Cassandra 5.0")
"""Its authors name 11 and 17. With the options of ``workloads/cassandra`` it runs on 21, not on 25."""
RECIPE = Recipe(
    packages=Packages(apt=("maven",), dnf=("maven",)),
    java=JAVA,
    payload=PAYLOAD,
    disk_bytes=350 << 20,
)
