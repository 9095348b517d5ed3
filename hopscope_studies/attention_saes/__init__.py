"""Sparse autoencoders of attention outputs, and long-prefix induction heads (Kissane et al., 2024, arXiv:2406.17759).

Found: An autoencoder recovers 98 % of the known features of a hand-set layer, and nine in ten of the known features of
trained models that copy. In SmolLM2 an autoencoder that two cores can train recovers half of the loss that ablating a
layer's attention costs, which is not clearly more than random dictionaries recover. SmolLM2 has both kinds of induction
heads: for L18H6 one matching token is enough, and L18H7 needs several in order. In Gemma 3 270M two heads have most of
the effect. By the kind of position that features read, at most a third of the heads of two layers of SmolLM2 do several
things.
"""
