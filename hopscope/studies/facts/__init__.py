"""Factual recall: when it is learnt, and what attention and MLP hold of it (Nichani, Lee & Bietti, 2024)."""
