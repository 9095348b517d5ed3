"""Mixtures of h − 1 heads, trained in turn with their gates (Peng et al., 2020, arXiv:2005.06537).

Found: After 1,500 steps the mixture whose heads and gates are trained in turn overfits least, and in every seed its
loss is lower than that of plain attention, of dropout and of joint training. After 600 steps plain attention had by far
the lowest loss. Gates specialise by the kind of a sequence, and keep the head that both kinds need.
"""
