"""``steelyard characterize``: looks at any workload beside which nothing of Steelyard's runs load."""
