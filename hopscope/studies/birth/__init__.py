"""Birth of an induction head, as memories of triggers and outputs (Bietti et al., 2023, arXiv:2306.00802)."""
