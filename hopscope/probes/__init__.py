"""Probes: what can be decoded where."""
