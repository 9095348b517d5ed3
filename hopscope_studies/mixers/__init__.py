"""Mixers: can a state space and a delta rule hop, and in how wide a window of learning rates (arXiv:2508.19029)?

Found: With a short convolution a state space learns two hops in two layers in every seed, and the delta rule in two of
three. Without the convolution neither does. In as many steps softmax and linear attention hardly learn one hop.
"""
