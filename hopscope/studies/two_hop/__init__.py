"""Two hops among distractors: why it is not learnt, and with what it is (Guo et al., 2025, arXiv:2502.13913)."""
