"""Two hops among distractors: what prevents learning them, and what helps (Guo et al., 2025, arXiv:2502.13913).

Found: Asking for the end of the chain alone is not enough. If the middle of the chain is asked, too, KV shifting
attention solves two hops in five seeds of five, and plain attention with a prior in three of five. Asked for the end
alone, neither does. The middle is learnt first, and distractors do no harm. Asked in words among four chains, SmolLM2
is hardly above a guess, at one hop or two.
"""
