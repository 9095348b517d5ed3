"""How transformers learn causal structure (Nichani, Damian & Lee, 2024): is attention the latent graph?

Found: SGD writes the latent graph into the attention of the first layer. AdamW reaches a loss as low with the graph in
the second layer, or, in a second setting, often in the first. In neither case does the circuit finder explain the
model. Two heads divide two parents between them on three of five graphs.
"""
