"""Stacks: other people's servers and programs that a benchmark is made of, installed by one command."""
