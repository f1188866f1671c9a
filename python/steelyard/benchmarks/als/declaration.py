"""What belongs to the recommender."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.spark.stack.recipe import RECIPE

DECLARATION = Declaration(
    name="als",
    title="Recommender",
    doc="alternating least squares in Spark, over generated ratings of films",
    benchmark="steelyard.benchmarks.als.benchmark:AlsBench",
    headline=("ratings_per_s", "fit_s", "rmse", "deviation", "server_cpu_ratio", "ready_s"),
    metric_names={
        "ratings_per_s": "ratings, all iterations",
        "fit_s": "time of a fit",
        "rmse": "error of unseen ratings, stars",
        "deviation": "deviation of unseen ratings, stars",
    },
    suites=("cloudsuite",),
    order=42,
    recipe=RECIPE,
)
