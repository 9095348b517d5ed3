"""How transformers learn causal structure (Nichani, Damian & Lee, 2024): is attention the latent graph?

Found: SGD writes the latent graph into the attention of the first layer. AdamW reaches the same loss with the graph in
the second layer, and the circuit finder explains neither.
"""
