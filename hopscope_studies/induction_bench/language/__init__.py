"""The benchmark of output strictly local functions, beside the laboratory's of input strictly local ones."""
