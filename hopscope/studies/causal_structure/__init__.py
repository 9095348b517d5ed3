"""How transformers learn causal structure (Nichani, Damian & Lee, 2024): is attention the latent graph?"""
