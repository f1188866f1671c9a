"""An application like a photo network's: five views over Cassandra and memcached."""
