"""What repeated data does to copying (Hernandez et al., 2022, arXiv:2205.10487): a toy analogue.

Found: A pool of 8 or 64 repeated segments makes some models memorise, and those have no induction head. A pool of 2, or
of 512, makes none memorise. The mean loss is therefore worst in between, but not in every seed.
"""
