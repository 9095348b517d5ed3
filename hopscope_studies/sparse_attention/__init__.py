"""Sparse attention: what attention's entropy in the loss does to learning and to circuits.

Found: With a small weight on the entropy of attention in the loss, the entropy falls by two fifths at almost the same
task loss, and circuits have as many paths as before. In the two pairs of models that were looked at, the entropy term
mostly sharpens rows that belong to no circuit.
"""
