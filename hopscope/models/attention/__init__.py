"""Attention variants: how queries, keys and values become a pattern and what it mixes. One per file."""
