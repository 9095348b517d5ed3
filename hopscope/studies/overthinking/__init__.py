"""False demonstrations shown to a language model (Halawi et al., 2023, arXiv:2307.09476): critical layer, heads.

Found: Not measured yet.
"""
