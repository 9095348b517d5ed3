"""Experiments of the study `sparse_attention`."""
