"""Probes: what can be decoded from which residual stream."""
