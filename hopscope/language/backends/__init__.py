"""Backends, the ways to run a model: one per file."""
