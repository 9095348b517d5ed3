"""Contexts that contradict what a model knows, and the heads that copy them (Halawi et al., 2023, arXiv:2307.09476).

Found: Known classes are answered correctly after the first layer, and wrongly at the end if the context's labels are
false. Silencing the two induction heads of the critical layer removes nearly all of this effect and costs nothing else.
"""
