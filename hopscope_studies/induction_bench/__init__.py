"""InductionBench: can a language model find the rules of a function? (Hua et al., 2025, arXiv:2502.15823).

Found: Thirty-line programs learn exactly all 480 functions that we drew at four of InductionBench's sizes. SmolLM2
finds no rule that it could not have guessed. Asked in chat, it repeats the examples and never states a rule. After two
solved functions four in five of its answers hold a rule, but with shuffled examples as many of these rules are right.
If rules look at what was written, fewer answers hold one, and no function is found. Gemma 3 270M learns the form of the
answers better, and finds no more right rules.
"""
