"""Out-of-distribution generalisation by composition (Song, Xu and Zhong, 2024, arXiv:2408.09503).

Found: Two layers copy unseen segments and one layer does not. The directions that the two heads share are needed for
it in every seed, and they are enough in six seeds of eight. In SmolLM2 eight heads carry all copying, and each shares a
subspace with one head of the layer just before.
"""
