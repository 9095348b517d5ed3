"""Sparse attention: what attention's entropy in the loss does to learning and to circuits.

Found: A weight on the entropy of attention halves it at the same loss, and the circuits have as many paths as before.
It sharpens mostly the rows of idle heads, which no circuit holds. Without a prior it can keep a model on the plateau.
"""
