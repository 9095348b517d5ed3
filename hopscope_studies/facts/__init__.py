"""Factual recall: when it is learnt, and what attention and MLP hold of it (Nichani, Lee & Bietti, 2024).

Found: Recall comes in three phases, and in the middle one the model ignores the subject. What one layer holds grows
with its parameters, at half the published rate, and four times as many steps add little.
"""
