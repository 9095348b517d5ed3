"""In-context learning by gradient descent: a linear self-attention layer, and what it computes. See its README."""
