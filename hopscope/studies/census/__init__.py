"""A census of circuits: which ones do trained models have, how often, and what decides (beyond Musat, ICLR 2025).

Found: Circuits are many. Sixty models of two hops have circuits of thirty classes. Of pairs that differ in their seed
alone, one in five agrees. The order of facts explains a part of this. No effect of depth, learning rate or initial
weights was seen. In all 68 models the paths found suffice by hand, as the paper tests it. In half of these they also
pass the tests on live attention.
"""
