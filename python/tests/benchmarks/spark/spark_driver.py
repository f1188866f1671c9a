"""The driver of SparkBench as a module: it is no part of a package."""

import importlib.util

from steelyard._base import workloads_dir

SOURCE = workloads_dir() / "spark"


def load_driver():
    spec = importlib.util.spec_from_file_location("spark_driver", SOURCE / "driver.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
