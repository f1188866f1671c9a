"""A node of Apache Cassandra as a server of a run: profiles, start and end, the log of its collector."""
