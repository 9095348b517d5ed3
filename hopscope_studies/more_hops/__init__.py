"""More hops than trained: a looped layer against unshared ones, asked for longer chains with more loops.

Found: One looped layer learns sixteen hops in nine of fifteen runs, four of them without any prior. These four have
rotary positions, four heads and an MLP. They answer seventeen hops in most cases, and thirty-two in none. Trained on
one to three hops, it runs one loop more for four, and does not answer six. This requires that the number of hops varies
in training and that the facts come deepest first. With too many loops the layer no longer answers hops that it had
learnt. Asked for one to sixteen hops with a learning rate that is constant for most of the time, it learns four to
eight (accuracy of at least 0.8). The fifteen runs have a rate that falls from the first step and more steps. By the
board's criterion, a loss below 0.1, five of them learn sixteen hops. KV shift has no prior for the previous token in
its weights, but it has one in its architecture. The program of one model's circuit of two hops, lengthened, answers six
hops without an error, where the model answers 0.06 of them.
"""
