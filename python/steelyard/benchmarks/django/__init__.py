"""An application like a photo network's: Django on uWSGI, Cassandra, memcached."""
