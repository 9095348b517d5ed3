"""More hops than trained: a looped layer against unshared ones, asked for longer chains with more loops.

Found: One looped layer, trained on one to three hops, answers four hops in half of the cases. It runs one loop more for
them, and does not answer six hops. This requires that the number of hops varies in training and that the facts come
deepest first. With too many loops the layer no longer answers hops that it had learnt. Trained on one to sixteen hops,
it learns four to eight if the learning rate is constant for most of the time. If the rate falls from the first step,
five of ten runs learn sixteen, some of them without a prior.
"""
