"""Hooks that come with Steelyard. They use the public interface of ``steelyard.bench.hook`` and nothing else."""
