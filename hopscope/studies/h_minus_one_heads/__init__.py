"""Mixtures of h − 1 heads, trained in turn with their gates (Peng et al., 2020, arXiv:2005.06537).

Found: Gates specialise by the kind of a sequence, and keep the head that both kinds need. The mixture does harm all the
same. After 600 steps plain attention continues sequences from context. No mixture does, whether trained in turn or
jointly.
"""
