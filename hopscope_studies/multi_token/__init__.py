"""Several tokens ahead, several hops ahead: are induction heads built sooner (Gloeckle et al., 2024)?

Found: Asking for several tokens ahead does not build induction heads sooner here. With two tokens ahead five seeds of
eight learn names instead of four, but later. With a second output head that repeats the current token, no seed learns
them. With one that names the token before, which the induction head uses, all eight seeds do. The implicit curriculum
works in the same way: the nearer hop is a part of the farther hop, which is not learnt without it. The nearer hop
itself is learnt a little later when both are asked.
"""
