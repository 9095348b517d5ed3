"""The circuit of one hop in a language model: heads and MLPs as nodes, at single tokens, and the edges between them."""
