"""In-context learning by gradient descent: a linear self-attention layer, and what it computes. See its README.

Found: One linear attention layer learns one step of gradient descent. Two looped layers learn two steps of GD++. A
layer that is applied ten times to its own output, x and y together, diverges. If x and y are separate tokens, a first
layer learns to pair them. With an MLP before attention, four of five models learn features of sine waves, and take one
step on them.
"""
