"""Out-of-distribution generalisation by composition (Song, Xu and Zhong, 2024, arXiv:2408.09503).

Found: Two layers copy unseen segments and one layer does not. The directions that the two heads share are needed for
copying in every seed, and are enough in six seeds of eight. Without its eight strongest induction heads SmolLM2 copies
nothing, and each of them shares a subspace with one head of the layer just before.
"""
