"""Hypothesis refinement: rules are proposed, tested on examples and refined (Qiu et al., 2024, arXiv:2310.08559).

Found: If each proposal is right with probability p, T rounds of N proposals find a share 1 − (1 − p)^(NT) of the rules,
within sampling error. If a share e of the examples is spoilt, the right rule fits all eight with probability (1 − e)^8
only, and the rule with the best fit is more often the right one. SmolLM2 uses the examples a little: it is right about
a light in 0.65 of exercises, and in 0.43 with shuffled examples. On lists it is at chance.
"""
