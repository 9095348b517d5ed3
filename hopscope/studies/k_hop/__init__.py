"""k-fold composition, from k hops alone and from easy to hard (Wang, Nichani et al., 2025, arXiv:2505.23683)."""
