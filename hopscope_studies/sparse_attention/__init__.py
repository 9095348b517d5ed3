"""Attention's entropy in the loss: does sparse attention make smaller circuits, at the same loss?

Found: not yet run.
"""
