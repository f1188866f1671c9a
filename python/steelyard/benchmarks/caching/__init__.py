"""Data caching: memcached with small objects of skewed popularity."""
