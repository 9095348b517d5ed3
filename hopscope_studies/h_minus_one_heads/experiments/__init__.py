"""Experiments of the study `h_minus_one_heads`."""
