"""Contexts that contradict what a model knows, and the heads that copy them (Halawi et al., 2023, arXiv:2307.09476).

Found: Read out after the first layer, the answers for known classes are right. At the end they are wrong if the
context's labels are false. Silencing the two induction heads of the layer at which half of this effect has appeared
removes nearly all of it, and costs no accuracy if the labels are true.
"""
