"""k-fold composition, from k hops alone and from easy to hard (Wang, Nichani et al., 2025, arXiv:2505.23683).

Found: Trained alone, three hops are not learnt; four are, with fewer hops asked beside them or in cumulative stages.
Plain stages forget. hop-k errs by depth as in the published table.
"""
