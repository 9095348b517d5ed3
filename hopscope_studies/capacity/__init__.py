"""Capacity: do models that are asked for more hops than their depth reaches learn heuristics (arXiv:2510.19753)?

Found: Hops that depth does not reach are never learnt, and asking for them delays those that it does reach. With two
too many, two layers lose the one that they could learn, in four of five seeds. No heuristic takes the algorithm's
place: hops that are learnt beside them answer elsewhere as often as without them.
"""
