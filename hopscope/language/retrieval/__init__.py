"""Retrieval heads of language models (Wu et al., 2024, arXiv:2404.15574): needles, scores, and models without them."""
