"""Ways to score a model on a question: one per file."""
