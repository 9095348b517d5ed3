"""False demonstrations shown to a language model (Halawi et al., 2023, arXiv:2307.09476): critical layer, heads.

Found: False labels cost SmolLM2 .35 to .57 of accuracy. Up to layer 18 of 30 there is next to no gap, and half of it
has opened after layer 21. But no earlier layer answers better, and late layers correct more than they spoil. The five
heads that attend most to false labels carry 26 to 29 % of the gap. That is more than random sets on average, and not
more than the best of ten. Gemma 3 270M does overthink: it answers better half-way, and five heads carry the whole gap.
"""
