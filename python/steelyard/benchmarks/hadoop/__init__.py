"""Jobs of Hadoop MapReduce as a benchmark: settings, a cluster of one machine, reports of jobs."""
