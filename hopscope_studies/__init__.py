"""Studies: one folder per paper or question, with all that nobody else needs. They never import one another."""
