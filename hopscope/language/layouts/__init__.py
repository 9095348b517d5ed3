"""Ways to put a question to a model: one per file."""
