"""More hops than trained: a looped layer against unshared ones, asked for longer chains with more loops.

Found: One looped layer, trained on one to three hops, answers a fourth with one loop more in half of the cases, and no
sixth. This requires varied lengths in training and facts that come deepest first. With too many loops it loses hops
that it had learnt.
"""
