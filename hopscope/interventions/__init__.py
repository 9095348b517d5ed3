"""Interventions on a model: patterns, clamps, truncated weights, and an engine that runs many of them."""
