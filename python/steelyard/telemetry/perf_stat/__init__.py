"""Files of ``perf stat``, in each form that perf writes."""
