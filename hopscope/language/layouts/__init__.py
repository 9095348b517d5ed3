"""Layouts, the ways to present a question to a model: one per file."""
