"""k-fold composition, from k hops alone and from easy to hard (Wang, Nichani et al., 2025, arXiv:2505.23683).

Found: Trained alone, k hops are not learnt; mixed with fewer hops they are. Hops come in the order 1, 2, 4, but a layer
does not always double them.
"""
