"""Global association against in-context recall (Chen, Bruna and Bietti, 2024, arXiv:2406.03068).

Found: Feed-forward weights learn the noise from O(1) samples and attention from O(N). In the paper's setting, removing
the late feed-forward weights, or truncating their first matrix, turns every prediction to the context, though not with
certainty.
"""
