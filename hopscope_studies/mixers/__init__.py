"""Mixers: can a state space and a delta rule hop, and in how wide a window of learning rates (arXiv:2508.19029)?

Found: No run of 400 steps solves two hops (loss below 0.1) in two layers. With a short convolution the loss of the
second hop falls below 0.5, where a guess has 0.75: that of state space models in every seed (0.32 to 0.50), and that of
delta rule models in four seeds of five (0.22 to 0.39). Without the convolution neither hop is learnt, but for the first
hop in one run, and two layers of softmax or linear attention hardly learn one hop. Asked for sixteen keys, one layer of
the delta rule with a convolution recalls 0.90 to 0.96 of them at its best rate, and one of the state space 0.73 to
0.95. One layer of softmax or linear attention recalls nothing.
"""
