"""Algorithms that solve plain retrieval with one head per layer; each a file that plans a schedule."""
