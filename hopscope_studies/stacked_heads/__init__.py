"""Stacked attention heads on the retrieval problem, the paper's claims and beyond (Musat, 2024, arXiv:2411.12118).

Found: Trained as the paper says, Transformer D has the paper's circuit in two of three seeds. In this circuit one layer
joins the facts, and each of four later layers reads one hop. With all patterns set by hand its error is 0.042 in one
seed and 0.044 in the other (paper: 0.045). Over both orders of the facts D learns all four hops in seven runs of nine,
one of which loses them again. Transformers A to C do not learn three hops. With a prior for the previous token, models
of the paper's sizes learn in minutes, but mostly have other circuits.
"""
