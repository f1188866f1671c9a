"""What counters say, in sections, words and JSON."""
