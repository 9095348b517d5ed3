"""A census of circuits: which ones do trained models have, how often, and what decides (beyond Musat, ICLR 2025).

Found: Circuits are many. 149 models of two hops have circuits of 57 classes. Of pairs that differ in their seed alone,
one in nine agrees. The order of facts explains a part of this variation, and decides whether facts are joined ahead of
the query. No effect of learning rate or initial weights was seen. Three and four hops are mostly learnt by doubling. In
210 of 211 models the paths found suffice by hand, as the paper tests it. In 201 they also pass the tests on live
attention.
"""
