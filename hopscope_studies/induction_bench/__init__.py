"""InductionBench: can a language model find the rules of a function? (Hua et al., 2025, arXiv:2502.15823).

Found: A program of thirty lines learns every function of InductionBench's sizes exactly. SmolLM2 finds none that it
could not have guessed. In chat it repeats the examples and never states a rule. After two solved functions four answers
in five hold a rule, and as many of these rules are right with shuffled examples. Gemma 3 270M learns the form better,
and the rules no better.
"""
