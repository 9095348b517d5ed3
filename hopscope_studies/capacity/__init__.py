"""Capacity: do models that are asked for more hops than their depth reaches learn heuristics (arXiv:2510.19753)?

Found: Hops that depth does not reach are never learnt, and asking for them delays the hops within reach. If two hops
too many are asked, models of two layers do not learn the one hop within their reach in four seeds of five. No heuristic
takes the algorithm's place: in sequences of three chains, hops within reach are mostly answered as often if they were
learnt beside hops out of reach as if they were learnt alone (median of 15 pairs: .01 less often; range .22 more to .55
less).
"""
