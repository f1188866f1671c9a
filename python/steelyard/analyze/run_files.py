"""Names of files and hooks in a run's folder that whoever makes a run and whoever reads it agree on.

Not here: their contents. Nothing is imported, since a run begins with these names.
"""

HEALTH = "health.json"
"""The machine's last good health check."""
PERF_STAT_HOOK = "perf_stat"
"""Under which a run's manifest lists the files of ``perf stat`` that were copied into it."""
PERF_STAT_FOLDER = "perf-stat"
PERF_STAT_BYTES_AT_MOST = 256 << 20
COUNTERS = "counters"
"""Under which a run's manifest says what counting beside it cost, or why nothing was counted."""
RECORDED = "counters"
"""Folder of what was counted beside the run."""
TOP_DOWN_HOOK = "topdown"
"""The same of what top-down needs; folder of its recording, too."""
SHARED = "counters-machine"
"""Folder of counts of what CPUs share: memory controllers, power."""
PROFILE = "profile"
"""Under which a run's manifest says how stacks were sampled, or why they were not."""
PROFILES = {"server": "profile.folded", "load": "profile-load.folded"}
"""Folded stacks by side; a run without sides has the first alone."""
