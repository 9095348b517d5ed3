"""Hypothesis refinement: rules proposed, tried on examples and proposed again (Qiu et al., 2024, arXiv:2310.08559)."""
