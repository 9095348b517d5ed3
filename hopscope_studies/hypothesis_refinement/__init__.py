"""Hypothesis refinement: rules proposed, tried on examples and proposed again (Qiu et al., 2024, arXiv:2310.08559).

Found: For proposers that are right with probability p, the loop of T rounds with N proposals each finds 1 − (1 −
p)^(NT) of the rules, within sampling error. Spoilt examples break a perfect fit at the rate 1 − (1 − e)^8, and the best
fit survives them better. Helped a little by the examples, SmolLM2 tells a light that is on from one that is off (0.65,
and 0.43 with shuffled examples). On lists it is at chance.
"""
