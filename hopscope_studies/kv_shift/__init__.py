"""KV shifting attention: one layer for two, and its exact least depths (Xu et al., 2024, arXiv:2411.19574).

Found: One layer learns induction in 64 steps, which two plain layers do not in 300. The shift saves exactly one layer,
and trained models reach that depth: two layers learn three hops of retrieval in five seeds of five, by the schedule of
the proof. Randomly drawn starts may fail, and on 3-grams there is a small gain.
"""
