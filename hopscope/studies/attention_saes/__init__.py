"""Sparse autoencoders of attention outputs, and long-prefix induction heads (Kissane et al., 2024, arXiv:2406.17759).

Found: to be written.
"""
