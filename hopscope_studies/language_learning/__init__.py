"""In-context language learning (Akyürek et al., 2024): random automata, n-gram heads, and what n-grams alone know.

Found: On strings of an unseen automaton, two layers with n-gram heads predict as well as the in-context 3-gram model.
Two layers of softmax attention alone do not, in as many steps.
"""
