"""Interventions: what is done to a model from outside. Patterns in place of attention, clamps, truncated weights."""
