"""The same questions asked of a language model: what cutting induction heads costs, and the bridges between heads."""
