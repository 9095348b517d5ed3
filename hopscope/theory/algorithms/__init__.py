"""Algorithms that solve plain retrieval with one head per layer; each file plans a schedule."""
