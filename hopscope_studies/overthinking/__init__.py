"""False demonstrations shown to a language model (Halawi et al., 2023, arXiv:2307.09476): critical layer, heads.

Found: False labels in the context lower SmolLM2's accuracy by .35 to .57. Up to layer 18 of 30 there is next to no gap
between true and false labels, and half of it has opened after layer 21. But no earlier layer answers better, and late
layers correct more than they spoil. The five heads that attend most to false labels carry 26 to 29 % of the gap. This
is more than random sets carry on average, but not more than the best of ten. Gemma 3 270M does overthink: it answers
better half-way, and five heads carry the whole gap.
"""
