"""Factual recall: when it is learnt, and what attention and MLP hold of it (Nichani, Lee & Bietti, 2024).

Found: Recall is learnt in three phases, and in the middle one the model ignores the subject. The number of facts that
one layer holds grows with the number of its parameters, at half the published rate, and four times as many steps add
few facts.
"""
