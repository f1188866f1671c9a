"""``steelyard run``: flags, plan, preflight, the run or the suite itself."""
