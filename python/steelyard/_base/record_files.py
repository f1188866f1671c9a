"""Names of the records that folders are known by; who looks for one loads nothing else."""

RUN = "run.json"
SUITE = "suite.json"
EXPERIMENT = "experiment.json"
TUNING = "tuning.json"
COLOCATION = "colocation.json"
HEALTH_COMPARISON = "comparison.json"
