"""More hops than trained: a looped layer against unshared ones, asked for longer chains with more loops.

Found: One looped layer learns sixteen hops in five of ten runs, and answers one hop more than trained in half of the
cases. Trained on one to three hops, it runs one loop more for four, and does not answer six. This requires that the
number of hops varies in training and that the facts come deepest first. With too many loops the layer no longer answers
hops that it had learnt. Asked for one to sixteen hops with a learning rate that is constant for most of the time, it
learns four to eight (accuracy of at least 0.8). The ten runs have a rate that falls from the first step and more steps.
By the board's criterion, a loss below 0.1, one of them learns sixteen hops. Three of the five have KV shift, a lower
rate and more heads. KV shift has no prior for the previous token in its weights, but it has one in its architecture.
The program of one model's circuit of two hops, lengthened, answers six hops without an error, where the model answers
0.06 of them.
"""
