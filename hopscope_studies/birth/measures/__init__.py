"""Measures that only this study uses, one per file."""
