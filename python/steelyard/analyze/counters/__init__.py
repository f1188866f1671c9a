"""What hardware counters say: definitions of events, formulas of metrics, the iron law, top-down, SMT."""
