"""A census of circuits: which ones do trained models have, how often, and what decides (beyond Musat, ICLR 2025).

Found: 149 models of two hops have circuits of 57 classes. Of pairs of models that differ in their seed alone, one in
nine has circuits of one class. The order of the facts explains a part of this variation, and decides whether facts are
joined ahead of the query. No effect of the learning rate or of the initial weights was seen. Three and four hops are
mostly learnt by pointer doubling. In 210 of 211 models the paths found suffice with all patterns set by hand, as the
paper tests it. In 201 of these models the paths also suffice with the attention that the heads themselves compute.
"""
