"""InductionBench: can a language model find the rules of a function? (Hua et al., 2025, arXiv:2502.15823).

Found: Programs of thirty lines learn every function of InductionBench's three classes and sizes exactly. SmolLM2 finds
none that it could not have guessed. In chat it repeats the examples and never states a rule. After two solved functions
four answers in five hold a rule, and as many of these rules are right with shuffled examples. If rules look at what was
written, fewer answers hold one, and no function is found. Gemma 3 270M learns the form better, and the rules no better.
"""
