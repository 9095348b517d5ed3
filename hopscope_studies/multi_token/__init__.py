"""Several tokens ahead, several hops ahead: are induction heads built sooner (Gloeckle et al., 2024)?

Found: Asking for several tokens does not build induction heads sooner here. With two tokens ahead five of eight seeds
learn names instead of four, but later. With a second head that repeats the current token, no seed learns them. With one
that names the token before, which the induction head uses, all eight do. The implicit curriculum works in the same way:
the nearer hop is a part of the farther one, which is not learnt without it. The nearer hop itself is learnt a little
later when both are asked.
"""
