"""Hypothesis refinement: rules are proposed, tested on examples and refined (Qiu et al., 2024, arXiv:2310.08559).

Found: T rounds of N proposals, each right with probability p, find a share 1 − (1 − p)^(NT) of the rules, within
sampling error. If a share e of the examples is spoilt, the right rule fits all eight examples with probability (1 −
e)^8 only. Taking the rule that fits the most examples is then more often right. SmolLM2 uses the examples a little: of
its answers about a light 65 % are right, and 43 % with shuffled examples. On lists it is at chance. On small coloured
grids it chooses better than chance, but as well with shuffled examples; on commands in nonce words it is at chance.
Where it chooses among four rules, it is at chance in all four domains, whether or not outputs are shuffled. On lists
it chooses the right output in 84 % of the exercises, and the right rule in 20 %.
"""
