"""Stacked attention heads on the retrieval problem, the paper's claims and beyond (Musat, 2024, arXiv:2411.12118)."""
