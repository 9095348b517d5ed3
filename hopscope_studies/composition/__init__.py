"""Out-of-distribution generalisation by composition (Song, Xu and Zhong, 2024, arXiv:2408.09503).

Found: Models of two layers copy unseen segments, and models of one layer do not. The directions that the two copying
heads share are needed for copying in every seed, and are enough in six seeds of eight. Without its eight strongest
induction heads SmolLM2 copies nothing, and each of these eight shares a subspace with one head of the layer just
before. Of four kinds of prompts with a hidden rule, SmolLM2 finds the rule of two when symbols replace the familiar
answers, and only guesses without its induction heads.
"""
