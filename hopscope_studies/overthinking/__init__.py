"""False demonstrations shown to a language model (Halawi et al., 2023, arXiv:2307.09476): critical layer, heads.

Found: False labels in the context lower SmolLM2's calibrated accuracy at naming a word's class by 0.35 to 0.57 (three
sets of texts). Up to layer 18 of 30 there is next to no gap between the accuracies with true and with false labels, and
half of the gap has opened after layer 21. But no earlier layer answers better than the last, and late layers correct
more answers than they spoil. The five heads that attend most to false labels carry 26 to 29 % of the gap. This is more
than random sets of five heads carry on average, but not more than the best of ten such sets carries. Gemma 3 270M does
overthink: a layer half-way answers better than the last, and five heads carry the whole gap.
"""
