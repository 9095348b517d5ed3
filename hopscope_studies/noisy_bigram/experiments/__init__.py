"""The study's experiments, one per file."""
