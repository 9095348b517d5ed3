"""Two hops among distractors: why they are not learnt, and with what they are (Guo et al., 2025, arXiv:2502.13913).

Found: The end alone is too little to ask for. With the middle of the chain asked, too, KV shifting attention solves two
hops in five seeds of five, and plain attention with a prior in three; asked for the end alone neither does. The middle
is learnt first, and distractors are told apart.
"""
