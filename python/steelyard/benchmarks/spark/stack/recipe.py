"""What benchmarks of Spark need: Java, Python with venv, and the payload that they share."""

from steelyard.bench.stack.java import Java
from steelyard.bench.stack.recipe import Packages, Recipe

PAYLOAD = "spark"
JAVA = Java((17, 21), needed_by="Spark 4.0")
"""Both by its documentation; tests run it on 17."""
RECIPE = Recipe(
    packages=Packages(apt=("python3-venv",), dnf=("python3",)),
    java=JAVA,
    payload=PAYLOAD,
    disk_bytes=1800 << 20,
)
