"""In-context language learning (Akyürek et al., 2024): random automata, n-gram heads, and what n-grams alone know."""
