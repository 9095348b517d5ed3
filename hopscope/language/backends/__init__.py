"""Ways to reach a model: one per file."""
