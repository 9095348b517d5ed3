"""Stacked attention heads on the retrieval problem, the paper's claims and beyond (Musat, 2024, arXiv:2411.12118).

Found: Given a prior for the previous token, the paper's sizes are learnt in minutes, their circuits are found and
validated, and hops fall in the order of the chain. Without it, at the same cost, nothing is learnt.
"""
