"""The same questions for a language model: the cost of ablating induction heads, and bridges between heads."""
