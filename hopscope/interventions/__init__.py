"""Interventions: what is done to a model from outside. Patterns, clamps, truncated weights, and an engine."""
