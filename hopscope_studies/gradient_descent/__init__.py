"""In-context learning by gradient descent: a linear self-attention layer, and what it computes. See its README.

Found: One linear attention layer learns one step of gradient descent. Two looped layers learn two steps of GD++.
Applied ten times to its own output, a layer diverges. If x and y are separate tokens, a first layer learns to pair
them.
"""
