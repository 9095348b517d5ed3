"""Capacity: do models that are asked for more hops than their depth reaches learn heuristics (arXiv:2510.19753)?

Found: Hops that depth does not reach are never learnt, and asking for them delays the hops within reach. If two hops
too many are asked, models of two layers do not learn the one hop within their reach in seven seeds of eight. No
heuristic takes the algorithm's place: in sequences of three chains, the accuracy of hops within reach that were learnt
beside hops out of reach is .01 lower in the median of 20 pairs (from .22 higher to .55 lower) than if they were learnt
alone.
"""
