"""Markov sources: random chains, latent graphs of parents, automata, and optimal predictors for them."""
