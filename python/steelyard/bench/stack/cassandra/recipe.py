"""What a node of Cassandra needs: Java, Maven, and the payload that benchmarks with a node share."""

from steelyard.bench.stack.java import Java
from steelyard.bench.stack.recipe import Packages, Recipe

PAYLOAD = "cassandra"
JAVA = Java((17,), needed_by="Cassandra 5.0")
RECIPE = Recipe(
    packages=Packages(apt=("maven",), dnf=("maven",)),
    java=JAVA,
    payload=PAYLOAD,
    disk_bytes=350 << 20,
)
