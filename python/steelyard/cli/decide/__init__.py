"""Commands that decide: which machine, how faithful, how much."""
