"""Hypothesis refinement: rules proposed, tried on examples and proposed again (Qiu et al., 2024, arXiv:2310.08559).

Found: What the loop finds is 1 − (1 − p)^(NT), to the sampling error, for proposers that are right with probability p.
Spoilt examples break a perfect fit at the rate 1 − (1 − e)^8; the best fit survives them better. SmolLM2 tells a light
that is on from one that is off with some help of the examples (0.65; 0.43 if shuffled); on lists it is at chance.
"""
