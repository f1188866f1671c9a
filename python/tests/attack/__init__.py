"""Attacks on Steelyard's programs, run by ``scripts/attack``; each part returns figures."""
