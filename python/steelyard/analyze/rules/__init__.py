"""Findings: the rules by area, and the order in which a page shows what they found."""
