"""More hops than trained: a looped layer against unshared ones, asked for longer chains with more loops.

Found: Nothing yet; thresholds and predictions are committed before the runs.
"""
