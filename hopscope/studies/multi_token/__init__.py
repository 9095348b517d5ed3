"""Several tokens ahead, several hops ahead: are induction heads built sooner (Gloeckle et al., 2024)?

Found: Not here. Asked two tokens ahead, five of eight seeds learn names instead of four, but later; asked to repeat the
token at hand none does. Asked for the token before, a part of the induction head, all eight do. The implicit curriculum
is of that kind: the nearer hop is a part of the farther one, which is not learnt without it, and is itself learnt a
little later for being asked beside it.
"""
