"""Attention variants: how a layer computes its pattern and values from queries and keys. One per file."""
