"""Birth of an induction head, as memories of triggers and outputs (Bietti et al., 2023, arXiv:2306.00802).

Found: One layer answers 54 % of the outputs in context and two layers 99.5 %. Memories form from the top down when
they are trained in stages, and in another order when they are trained at once.
"""
