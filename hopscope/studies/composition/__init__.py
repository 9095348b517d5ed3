"""Out-of-distribution generalisation by composition (Song, Xu and Zhong, 2024, arXiv:2408.09503)."""
