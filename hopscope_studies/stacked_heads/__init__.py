"""Stacked attention heads on the retrieval problem, the paper's claims and beyond (Musat, 2024, arXiv:2411.12118).

Found: Trained as the paper says, Transformer D has the paper's circuit in two of three seeds. With patterns set by hand
to one join, then one hop in each of four later layers, its error is 0.042 and 0.044 (paper: 0.045). Over both orders of
the facts D learns all four hops in seven runs of nine, one of which loses them again. A to C do not learn three hops.
With a prior for the previous token, models of the paper's sizes learn in minutes, mostly other circuits.
"""
