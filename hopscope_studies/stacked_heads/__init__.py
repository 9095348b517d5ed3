"""Stacked attention heads on the retrieval problem, the paper's claims and beyond (Musat, 2024, arXiv:2411.12118).

Found: Given a prior for the previous token, models of the paper's sizes learn in minutes. Their circuits are found and
validated, and hops are learnt in the order of the chain. No run has the paper's own recipe yet, which has no prior.
"""
