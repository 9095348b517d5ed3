"""Capacity: do models that are asked for more hops than their depth reaches learn heuristics (arXiv:2510.19753)?

Found: Not yet run.
"""
