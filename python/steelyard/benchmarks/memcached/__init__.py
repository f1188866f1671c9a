"""Memcached: Debian's server under requests for image previews."""
