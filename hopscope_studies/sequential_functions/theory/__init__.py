"""Exact and reference predictions for a function that generates its own sequence."""
