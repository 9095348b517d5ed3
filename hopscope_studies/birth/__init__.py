"""Birth of an induction head, as memories of triggers and outputs (Bietti et al., 2023, arXiv:2306.00802).

Found: One layer answers 54 % of the outputs in context and two layers 94 to 99.6 %. Bigrams come before both. At the
published proportions both memories of layer 2 form before layer 1's, but not in the order of the paper.
"""
