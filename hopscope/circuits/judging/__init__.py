"""How reliable circuits are: whether other seeds agree, and whether the known circuits of built models are right."""
