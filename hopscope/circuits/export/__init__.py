"""Circuits for other tools."""
