"""Global association against in-context recall (Chen, Bruna and Bietti, 2024, arXiv:2406.03068).

Found: Feed-forward weights learn the noise token from O(1) samples, and attention from O(N). In the paper's setting,
removing the feed-forward weights of the last layer, or truncating their first matrix, makes every prediction follow the
context, though not with certainty.
"""
