"""More hops than trained: a looped layer against unshared ones, asked for longer chains with more loops.

Found: One looped layer, trained on one to three hops, answers a fourth with one loop more in half of the cases, and no
sixth. That takes lengths that vary in training, and facts that come deepest first. Too many loops lose what it knows.
"""
