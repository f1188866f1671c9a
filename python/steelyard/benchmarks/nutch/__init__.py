"""Nutch's indexing: a crawl is parsed and indexed by a job of Hadoop MapReduce."""
