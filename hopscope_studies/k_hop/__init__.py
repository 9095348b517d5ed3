"""k-fold composition, from k hops alone and from easy to hard (Wang, Nichani et al., 2025, arXiv:2505.23683).

Found: Trained alone, three hops are not learnt. Four are in every seed, if fewer hops are asked as well, together or in
cumulative stages. Plain stages forget. Errors of hop-k depend on depth as in the published table.
"""
