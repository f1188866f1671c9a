"""What benchmarks of Hadoop need: Java with its compiler, Maven, and the payload that they share."""

from steelyard.bench.stack.hadoop.profile import PAYLOAD
from steelyard.bench.stack.recipe import Packages, Recipe

RECIPE = Recipe(
    packages=Packages(apt=("openjdk-17-jdk-headless", "maven"), dnf=("java-17-openjdk-devel", "maven")),
    programs=("java",),
    payload=PAYLOAD,
    disk_bytes=600 << 20,
)
