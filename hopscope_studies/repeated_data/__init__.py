"""What repeated data does to copying (Hernandez et al., 2022, arXiv:2205.10487): a toy analogue.

Found: If the repeated segments come from a pool of 8 or 64, some models memorise them, and these models have no
induction head: four and nine of twenty. With a pool of 2 or of 512 or more none memorises. The mean loss is therefore
highest for the pools in between, but not in every seed.
"""
