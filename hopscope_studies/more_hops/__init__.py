"""More hops than trained: a looped layer against unshared ones, asked for longer chains with more loops.

Found: One looped layer, trained on one to three hops, answers four hops in half of the cases. It runs one loop more for
them, and does not answer six hops. This requires that the number of hops varies in training and that the facts come
deepest first. With too many loops the layer no longer answers hops that it had learnt. Asked for one to sixteen
hops with a learning rate that is constant for most of the time, it learns four to eight. Five of ten runs learn sixteen
by accuracy (at least 0.8), and one or two by the board's loss (below 0.1), with a rate that falls from the first step
and half as many steps again. Three of the five have KV shift, with more heads and a lower rate. It has no prior for the
previous token in its weights, but it has one in its rule of attention.
"""
