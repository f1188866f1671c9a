"""FeedSim: a feed's ranking service within a latency objective."""
