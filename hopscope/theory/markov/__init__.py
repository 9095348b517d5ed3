"""Markov sources: random chains, latent graphs of parents, automata, and what can be foretold of them."""
