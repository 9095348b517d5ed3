"""Protocols, the ways to ask and to score a model: one per file."""
