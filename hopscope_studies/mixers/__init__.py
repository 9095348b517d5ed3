"""Mixers: can a state space and a delta rule hop, and in how wide a window of learning rates (arXiv:2508.19029)?

Found: With a short convolution a state space model learns two hops in two layers in every seed, and the delta rule does
so in two seeds of three. Without the convolution neither does. In as many steps, two layers of softmax or linear
attention hardly learn one hop.
"""
