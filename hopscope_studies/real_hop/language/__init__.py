"""The circuit of one hop in a language model: heads and MLPs as nodes, told apart by token, and the edges between."""
