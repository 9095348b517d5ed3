"""Capacity: do models that are asked for more hops than their depth reaches learn heuristics (arXiv:2510.19753)?

Found: Hops that depth does not reach are never learnt, and asking for them delays the hops within reach. Asked for two
hops too many, two layers do not learn the one hop within reach in four of five seeds. No heuristic takes the
algorithm's place: hops within reach that are learnt beside hops out of reach are answered among three chains as often
as hops learnt alone.
"""
