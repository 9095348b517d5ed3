"""Associative memories: gradients write them, and how much they hold (Nichani, Lee & Bietti, 2024).

Found: Gradients are sums of outer products, and one gradient step recalls d pairs. A trained matrix or MLP holds as
many pairs as published, within a quarter.
"""
