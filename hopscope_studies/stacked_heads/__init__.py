"""Stacked attention heads on the retrieval problem, the paper's claims and beyond (Musat, 2024, arXiv:2411.12118).

Found: Given a prior for the previous token, models of the paper's sizes learn in minutes. Their circuits are found and
validated, and hops are learnt in the order of the chain. As the paper has it, without a prior, Transformer D learns all
its hops in seven runs of nine, one of which loses them again, and one with the nearest facts first has the paper's
circuit, judged by hand; A to C do not learn three hops.
"""
