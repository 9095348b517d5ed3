"""In-context language learning (Akyürek et al., 2024): random automata, n-gram heads, and what n-grams alone know.

Found: Two layers with n-gram heads come as near to an unseen automaton as the in-context 3-gram model. Softmax
attention does not in as many steps.
"""
