"""How far circuits are to be trusted: whether other seeds agree, and whether the truth of a build holds."""
