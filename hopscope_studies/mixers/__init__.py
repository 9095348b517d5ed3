"""Mixers: can a state space and a delta rule hop, and in how wide a window of learning rates (arXiv:2508.19029)?

Found: Not yet run at scale `cpu`.
"""
