"""Domains of hypothesis refinement, the kinds of inputs and their rules: one per file."""
