"""Hooks that come with Steelyard, made with the public interface of ``steelyard.bench.hook`` alone."""
