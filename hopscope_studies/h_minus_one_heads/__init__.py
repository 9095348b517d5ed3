"""Mixtures of h − 1 heads, trained in turn with their gates (Peng et al., 2020, arXiv:2005.06537).

Found: After 1,500 steps the mixture trained in turn overfits least and is ahead of plain attention, of dropout and of
joint training in every seed. After 600 steps plain attention was far ahead. Gates specialise by the kind of a sequence,
and keep the head that both kinds need.
"""
