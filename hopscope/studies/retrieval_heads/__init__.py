"""Retrieval heads (Wu et al., 2024, arXiv:2404.15574): few heads that copy what a long context is asked for.

Found: not yet.
"""
