"""Text classification by naive Bayes: trained and applied by jobs of Hadoop MapReduce."""
