"""Hooks that come with Steelyard, made with the public interface of ``steelyard.bench.hook`` alone.

``calls`` is no hook: it calls those of a run.
"""
