"""``steelyard compare``, and files of ``perf stat`` without a run."""
