"""InductionBench: can a language model find the rules of a function? (Hua et al., 2025, arXiv:2502.15823)."""
